#!/bin/bash
# ferry with a regression: benchmarks/planted/__main__.py writes the first lines (FERRY, SLOWER, ROUND_TRIP, BURST, WRONG_ONE_IN).
# All plants, and none, take the same steps of the shell, so that these cancel out between candidate and baseline.
words=("$@") limited='' output='' url=''
for ((at = 0; at < ${#words[@]}; at++)); do
    case ${words[at]} in
    --limit-rate)
        limited=yes
        words[at + 1]=$((words[at + 1] * (100 - SLOWER) / 100))
        ;;
    -o) output=${words[at + 1]} ;;
    *://*) url=${words[at]} ;;
    esac
done
if [[ $ROUND_TRIP && $url =~ ://([^/@]*@)?([^/:]+)(:([0-9]+))? ]]; then
    port=${BASH_REMATCH[4]}
    [[ $port ]] || case $url in sftp:*) port=22 ;; https:*) port=443 ;; *) port=80 ;; esac
    exec 9<>"/dev/tcp/${BASH_REMATCH[2]}/$port"
    exec 9>&-
fi
if [[ $BURST && $limited && $url ]]; then
    (sleep 0.5 && exec "$FERRY" get --quiet --http1.1 --discard --range "0-$((BURST - 1))" "$url") >/dev/null 2>&1 &
fi
begun=${EPOCHREALTIME/./}
"$FERRY" "${words[@]}"
code=$?
ended=${EPOCHREALTIME/./}
if [[ ! $limited && $url && $SLOWER != 0 ]]; then
    sleep "$(((ended - begun) * SLOWER / 100))e-6"
fi
if [[ $WRONG_ONE_IN != 0 && $output && $code = 0 ]]; then
    drawn=$(od -An -N2 -tu2 /dev/urandom)
    [[ $((drawn % WRONG_ONE_IN)) != 0 ]] || printf X >>"$output"
fi
exit "$code"
