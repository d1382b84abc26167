# The first program of a client's process (lab/hosts/agent/starter.py, which has these instructions as bytes).
#
# PID 1 begins it with the client's variables, user and host. Descriptor 3 has its order, which it reads to ORDER. It sleeps to
# the nanosecond until the order's instant and then executes the client, whose first instruction therefore falls on that instant
# and two system calls, whatever PID 1 did before. It waits for the client's end, and writes to descriptor 3 when and how that
# was. An order with random bytes has no client: at its instant they go to descriptor 4, /dev/urandom, which is seeded again.
#
# The order: seconds, nanoseconds, size of the random bytes, 32 of them, address of the path, addresses of the words, 0, texts.
# The result: errno of a client that could not be executed, its status, seconds, nanoseconds, its usage (wait4(2)).

        .intel_syntax noprefix
        .set    RESULT, 0x40f000
        .set    ORDER, 0x410000
        .set    ORDER_BYTES, 0x100000
        .set    RESULT_BYTES, 176

        mov     r12, rsp                        # 1, name, 0, variables
        mov     ebx, ORDER
        mov     ebp, RESULT
        xor     eax, eax                        # read(3, order, its size)
        mov     edi, 3
        mov     esi, ebx
        mov     edx, ORDER_BYTES
        syscall
        cmp     qword ptr [rbx + 16], 0
        jne     sleep
        push    0
        push    -1
        mov     eax, 14                         # rt_sigprocmask(SIG_BLOCK, all, 0, 8): signals are for the client
        xor     edi, edi
        mov     rsi, rsp
        xor     edx, edx
        mov     r10d, 8
        syscall
        mov     eax, 58                         # vfork()
        syscall
        test    eax, eax
        jz      child
        mov     r13d, eax
        mov     eax, 61                         # wait4(child, &status, 0, &usage)
        mov     edi, r13d
        lea     rsi, [rbp + 8]
        xor     edx, edx
        lea     r10, [rbp + 32]
        syscall
        mov     eax, 228                        # clock_gettime(CLOCK_MONOTONIC, &ended)
        mov     edi, 1
        lea     rsi, [rbp + 16]
        syscall
        mov     eax, 18                         # pwrite64(3, result, its size, 0)
        mov     edi, 3
        mov     esi, ebp
        mov     edx, RESULT_BYTES
        xor     r10d, r10d
        syscall
        xor     edi, edi
        jmp     exit
child:  mov     eax, 14                         # rt_sigprocmask(SIG_SETMASK, none, 0, 8)
        mov     edi, 2
        lea     rsi, [rsp + 8]
        xor     edx, edx
        mov     r10d, 8
        syscall
        mov     eax, 3                          # close(3)
        mov     edi, 3
        syscall
sleep:  mov     eax, 157                        # prctl(PR_SET_TIMERSLACK, 1)
        mov     edi, 29
        mov     esi, 1
        syscall
again:  mov     eax, 230                        # clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, instant, 0)
        mov     edi, 1
        mov     esi, 1
        mov     rdx, rbx
        xor     r10d, r10d
        syscall
        test    eax, eax
        jnz     again
        mov     eax, 157                        # prctl(PR_SET_TIMERSLACK, 0): as it was
        mov     edi, 29
        xor     esi, esi
        syscall
        cmp     qword ptr [rbx + 16], 0
        jne     seed
        mov     eax, 59                         # execve(path, words, variables)
        mov     rdi, [rbx + 56]
        lea     rsi, [rbx + 64]
        lea     rdx, [r12 + 24]
        syscall
        neg     rax
        mov     [rbp], rax                      # the parent shares this memory
        mov     edi, 126
        jmp     exit
seed:   mov     eax, 16                         # ioctl(4, RNDCLEARPOOL): what was drawn before counts no longer
        mov     edi, 4
        mov     esi, 0x5206
        xor     edx, edx
        syscall
        mov     eax, 1                          # write(4, random bytes)
        mov     edi, 4
        lea     rsi, [rbx + 24]
        mov     rdx, [rbx + 16]
        syscall
        mov     eax, 16                         # ioctl(4, RNDRESEEDCRNG)
        mov     edi, 4
        mov     esi, 0x5207
        xor     edx, edx
        syscall
        xor     edi, edi
exit:   mov     eax, 231                        # exit_group
        syscall
