/* An application on libcurl: files over the easy or the multi interface, with its own callbacks, its own clock and one report.
 *
 * application [OPTIONS] get|put URL FILE
 *
 * --files N: URL and FILE are the same N times, unless they end with a slash: then the names f00000, f00001 ... are added.
 * The report is one line of JSON on stdout after a mark. Exit code: libcurl's of the first transfer that failed; 2: usage.
 * Seconds count from the start of the first transfer, by CLOCK_MONOTONIC. */

#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"

enum wait { POLL, WAIT, SELECT, SLEEP };

struct settings {
  int multi, unknown_size, each, put, nagle;
  enum wait wait;
  long every_ms, idle_ms, tick_us;
  long files, parallel, buffer, upload_buffer, receive_window, send_window;
  curl_off_t limit;
  const char *http, *cacert, *key, *pubkey, *known_hosts, *user;
  const char *url, *file;
};

/* One transfer. Times in seconds; below 0: never. */
struct transfer {
  long number;
  FILE *file;
  curl_off_t size, bytes;
  double began, first, last, ended;
  char error[CURL_ERROR_SIZE];
  char url[4096], path[4096];
};

/* Sums of all transfers for the report. */
struct totals {
  curl_off_t bytes;
  double first, last;
  long calls, largest, turns, done, connects, status, http_version;
  double connect, tls, lookup, pretransfer;
  CURLcode code;
  char error[CURL_ERROR_SIZE];
};

static struct settings set;
static struct totals sum;
static double origin;

static double monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double elapsed(void) { return monotonic() - origin; }

static void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void fail(const char *format, ...) {
  va_list words;
  va_start(words, format);
  fputs("application: ", stderr);
  vfprintf(stderr, format, words);
  fputc('\n', stderr);
  va_end(words);
  exit(2);
}

/* The wait that a coarse timer makes of a wait: it ends with a tick of the clock, not before its time. */
static struct timespec until_tick(double wait_s) {
  double end = monotonic() + wait_s, tick = (double)set.tick_us / 1e6;
  if(tick > 0) {
    double ticks = end / tick;
    end = (double)(long long)ticks * tick;
    if(end < ticks * tick)
      end += tick;
  }
  wait_s = end - monotonic();
  if(wait_s < 0)
    wait_s = 0;
  return (struct timespec){(time_t)wait_s, (long)((wait_s - (double)(time_t)wait_s) * 1e9)};
}

/* Replaces the C library's poll for libcurl too: there lie libcurl's own waits. Data ends a wait at once, as on Windows. */
int poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
  if(timeout_ms < 0)
    return ppoll(fds, count, NULL, NULL);
  struct timespec wait = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
  if(timeout_ms > 0 && set.tick_us > 0)
    wait = until_tick(timeout_ms / 1e3);
  return ppoll(fds, count, &wait, NULL);
}

/* What a program compiled with _FORTIFY_SOURCE calls instead. */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t size) {
  (void)size;
  return poll(fds, count, timeout_ms);
}

static void sleep_ms(long ms) {
  struct timespec wait = until_tick((double)ms / 1e3);
  while(nanosleep(&wait, &wait) && errno == EINTR)
    ;
}

static void moved(struct transfer *transfer, size_t bytes) {
  double now = elapsed();
  if(transfer->first < 0)
    transfer->first = now;
  transfer->last = now;
  transfer->bytes += (curl_off_t)bytes;
  sum.calls++;
  if((long)bytes > sum.largest)
    sum.largest = (long)bytes;
}

static size_t write_body(char *data, size_t size, size_t count, void *place) {
  struct transfer *transfer = place;
  size_t written = fwrite(data, 1, size * count, transfer->file);
  moved(transfer, written);
  return written;
}

/* The answer to an upload is no body. */
static size_t discard(char *data, size_t size, size_t count, void *place) {
  (void)data;
  (void)place;
  return size * count;
}

static size_t read_body(char *data, size_t size, size_t count, void *place) {
  struct transfer *transfer = place;
  size_t got = fread(data, 1, size * count, transfer->file);
  if(got)
    moved(transfer, got);
  else if(ferror(transfer->file))
    return CURL_READFUNC_ABORT;
  return got;
}

static int seek_body(void *place, curl_off_t offset, int whence) {
  struct transfer *transfer = place;
  return fseeko(transfer->file, (off_t)offset, whence) ? 1 : 0;
}

static int set_windows(void *unused, int socket, int purpose) {
  (void)unused;
  (void)purpose;
  int receive = (int)set.receive_window, send = (int)set.send_window;
  if(receive && setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &receive, sizeof(receive)))
    return 1;
  return send && setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &send, sizeof(send));
}

static void check(CURLcode code, const char *option) {
  if(code == CURLE_UNKNOWN_OPTION)
    fail("%s has no CURLOPT_%s", curl_version(), option);
  if(code)
    fail("CURLOPT_%s: %s", option, curl_easy_strerror(code));
}

#define SET(easy, option, value) check(curl_easy_setopt(easy, CURLOPT_##option, value), #option)

static CURL *prepare(void) {
  CURL *easy = curl_easy_init();
  if(!easy)
    fail("curl_easy_init failed");
  SET(easy, NOSIGNAL, 1L);
  SET(easy, TCP_NODELAY, set.nagle ? 0L : 1L);
  SET(easy, FAILONERROR, 1L);
  if(set.http)
    SET(easy, HTTP_VERSION, strcmp(set.http, "2") ? (long)CURL_HTTP_VERSION_1_1 : (long)CURL_HTTP_VERSION_2_0);
  if(set.parallel > 1)
    SET(easy, PIPEWAIT, 1L);
  if(set.buffer)
    SET(easy, BUFFERSIZE, set.buffer);
  if(set.upload_buffer)
    SET(easy, UPLOAD_BUFFERSIZE, set.upload_buffer);
  if(set.receive_window || set.send_window)
    SET(easy, SOCKOPTFUNCTION, set_windows);
  if(set.limit) {
    SET(easy, MAX_RECV_SPEED_LARGE, set.limit);
    SET(easy, MAX_SEND_SPEED_LARGE, set.limit);
  }
  if(set.cacert)
    SET(easy, CAINFO, set.cacert);
  if(set.user)
    SET(easy, USERNAME, set.user);
  if(set.key)
    SET(easy, SSH_PRIVATE_KEYFILE, set.key);
  if(set.pubkey)
    SET(easy, SSH_PUBLIC_KEYFILE, set.pubkey);
  if(set.known_hosts)
    SET(easy, SSH_KNOWNHOSTS, set.known_hosts);
  if(set.put && set.http) {
    /* With Expect the body would wait a round trip for the answer 100. */
    struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
    if(set.unknown_size && !strcmp(set.http, "1.1"))
      headers = curl_slist_append(headers, "Transfer-Encoding: chunked");
    SET(easy, HTTPHEADER, headers);
  }
  return easy;
}

static void name(char *into, size_t room, const char *base, long number) {
  int ends = *base && base[strlen(base) - 1] == '/';
  int length = ends ? snprintf(into, room, "%sf%05ld", base, number) : snprintf(into, room, "%s", base);
  if(length < 0 || (size_t)length >= room)
    fail("%.80s... is too long", base);
}

/* Opens the file and gives the transfer to the handle. Returns a CURLcode. */
static CURLcode begin(CURL *easy, struct transfer *transfer, long number) {
  struct stat facts;
  memset(transfer, 0, sizeof(*transfer));
  transfer->number = number;
  transfer->size = -1;
  transfer->first = transfer->last = -1;
  name(transfer->url, sizeof(transfer->url), set.url, number);
  name(transfer->path, sizeof(transfer->path), set.file, number);
  transfer->file = fopen(transfer->path, set.put ? "rb" : "wb");
  if(!transfer->file) {
    snprintf(transfer->error, sizeof(transfer->error), "%.180s: %s", transfer->path, strerror(errno));
    return set.put ? CURLE_READ_ERROR : CURLE_WRITE_ERROR;
  }
  if(set.put && !set.unknown_size && !fstat(fileno(transfer->file), &facts))
    transfer->size = facts.st_size;
  SET(easy, URL, transfer->url);
  SET(easy, PRIVATE, transfer);
  SET(easy, ERRORBUFFER, transfer->error);
  if(set.put) {
    SET(easy, UPLOAD, 1L);
    SET(easy, READFUNCTION, read_body);
    SET(easy, READDATA, transfer);
    SET(easy, SEEKFUNCTION, seek_body);
    SET(easy, SEEKDATA, transfer);
    SET(easy, INFILESIZE_LARGE, transfer->size);
    SET(easy, WRITEFUNCTION, discard);
  }
  else {
    SET(easy, WRITEFUNCTION, write_body);
    SET(easy, WRITEDATA, transfer);
  }
  transfer->began = elapsed();
  return 0;
}

static double seconds(CURL *easy, int info) {
  double value = 0;
  curl_easy_getinfo(easy, info, &value);
  return value;
}

static void end(CURL *easy, struct transfer *transfer, CURLcode code) {
  long value = 0;
  transfer->ended = elapsed();
  /* A full disk may show only here. */
  if(transfer->file && fclose(transfer->file) && !code && !set.put) {
    code = CURLE_WRITE_ERROR;
    snprintf(transfer->error, sizeof(transfer->error), "%.180s: %s", transfer->path, strerror(errno));
  }
  if(code && !sum.code) {
    sum.code = code;
    snprintf(sum.error, sizeof(sum.error), "%s", *transfer->error ? transfer->error : curl_easy_strerror(code));
  }
  if(!sum.done++) {
    sum.connect = seconds(easy, CURLINFO_CONNECT_TIME);
    sum.tls = seconds(easy, CURLINFO_APPCONNECT_TIME);
    sum.lookup = seconds(easy, CURLINFO_NAMELOOKUP_TIME);
    sum.pretransfer = seconds(easy, CURLINFO_PRETRANSFER_TIME);
  }
  curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &value);
  sum.connects += value;
  value = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &value);
  if(value > sum.status)
    sum.status = value;
  curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, &sum.http_version);
  sum.bytes += transfer->bytes;
  if(transfer->first >= 0 && (sum.first < 0 || transfer->first < sum.first))
    sum.first = transfer->first;
  if(transfer->last > sum.last)
    sum.last = transfer->last;
  if(set.each)
    printf("roughwater-file %lld %.6f %.6f %.6f %.6f\n", (long long)transfer->bytes, transfer->began, transfer->first,
           transfer->last, transfer->ended);
}

static void run_easy(void) {
  static struct transfer transfer;
  CURL *easy = prepare();
  for(long number = 0; number < set.files; number++) {
    CURLcode code = begin(easy, &transfer, number);
    end(easy, &transfer, code ? code : curl_easy_perform(easy));
  }
  curl_easy_cleanup(easy);
}

static void check_multi(CURLMcode code, const char *what) {
  if(code)
    fail("%s: %s", what, curl_multi_strerror(code));
}

/* As an application with an event loop of its own: libcurl's sockets and timer, at most `every` ms. */
static void wait_select(CURLM *multi) {
  fd_set in, out, bad;
  int highest = -1;
  long timeout = -1;
  FD_ZERO(&in);
  FD_ZERO(&out);
  FD_ZERO(&bad);
  check_multi(curl_multi_timeout(multi, &timeout), "curl_multi_timeout");
  check_multi(curl_multi_fdset(multi, &in, &out, &bad, &highest), "curl_multi_fdset");
  if(timeout < 0 || timeout > set.every_ms)
    timeout = set.every_ms;
  struct timespec wait = until_tick((double)timeout / 1e3);
  if(timeout && pselect(highest + 1, &in, &out, &bad, &wait, NULL) < 0 && errno != EINTR)
    fail("select: %s", strerror(errno));
}

static void wait_turn(CURLM *multi) {
  int ready = 0;
  switch(set.wait) {
  case POLL:
    check_multi(curl_multi_poll(multi, NULL, 0, (int)set.every_ms, &ready), "curl_multi_poll");
    break;
  case WAIT:
    check_multi(curl_multi_wait(multi, NULL, 0, (int)set.every_ms, &ready), "curl_multi_wait");
    if(!ready && set.idle_ms)
      sleep_ms(set.idle_ms);
    break;
  case SELECT:
    wait_select(multi);
    break;
  case SLEEP:
    sleep_ms(set.every_ms);
    break;
  }
}

static void run_multi(void) {
  CURLM *multi = curl_multi_init();
  long lanes = set.parallel < set.files ? set.parallel : set.files, next = 0, active = 0;
  struct transfer *transfers = calloc((size_t)lanes, sizeof(*transfers));
  CURL **easies = calloc((size_t)lanes, sizeof(*easies));
  if(!multi || !transfers || !easies)
    fail("no memory for %ld transfers", lanes);
  for(long lane = 0; lane < lanes; lane++)
    easies[lane] = prepare();
  CURL **idle = calloc((size_t)lanes, sizeof(*idle));
  long spare = 0;
  for(long lane = lanes; lane--;)
    idle[spare++] = easies[lane];
  for(;;) {
    while(spare && next < set.files) {
      CURL *easy = idle[--spare];
      struct transfer *transfer = NULL;
      for(long lane = 0; lane < lanes; lane++)
        if(easies[lane] == easy)
          transfer = &transfers[lane];
      CURLcode code = begin(easy, transfer, next++);
      if(code) {
        end(easy, transfer, code);
        idle[spare++] = easy;
        continue;
      }
      check_multi(curl_multi_add_handle(multi, easy), "curl_multi_add_handle");
      active++;
    }
    if(!active)
      break;
    int running = 0, queued = 0, finished = 0;
    check_multi(curl_multi_perform(multi, &running), "curl_multi_perform");
    sum.turns++;
    for(CURLMsg *message; (message = curl_multi_info_read(multi, &queued));) {
      if(message->msg != CURLMSG_DONE)
        continue;
      CURL *easy = message->easy_handle;
      CURLcode code = message->data.result;
      struct transfer *transfer = NULL;
      curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
      end(easy, transfer, code);
      check_multi(curl_multi_remove_handle(multi, easy), "curl_multi_remove_handle");
      idle[spare++] = easy;
      active--;
      finished = 1;
    }
    if(active && !finished)
      wait_turn(multi);
  }
  for(long lane = 0; lane < lanes; lane++)
    curl_easy_cleanup(easies[lane]);
  curl_multi_cleanup(multi);
}

static void print_text(const char *text) {
  putchar('"');
  for(; *text; text++) {
    if(*text == '"' || *text == '\\')
      putchar('\\');
    putchar((unsigned char)*text < ' ' ? ' ' : *text);
  }
  putchar('"');
}

static void report(double total) {
  printf("\nroughwater-libcurl {\"libcurl\": ");
  print_text(curl_version());
  printf(", \"interface\": \"%s\", \"code\": %d, \"error\": ", set.multi ? "multi" : "easy", (int)sum.code);
  print_text(sum.error);
  printf(", \"done\": %ld, \"bytes\": %lld, \"status\": %ld, \"http_version\": %ld, \"connects\": %ld", sum.done,
         (long long)sum.bytes, sum.status, sum.http_version, sum.connects);
  printf(", \"time_namelookup\": %.6f, \"time_connect\": %.6f, \"time_appconnect\": %.6f, \"time_pretransfer\": %.6f", sum.lookup,
         sum.connect, sum.tls, sum.pretransfer);
  printf(", \"first_byte_s\": %.6f, \"last_byte_s\": %.6f, \"total_s\": %.6f", sum.first < 0 ? 0 : sum.first,
         sum.last < 0 ? 0 : sum.last, total);
  printf(", \"callbacks\": %ld, \"largest_callback\": %ld, \"turns\": %ld}\n", sum.calls, sum.largest, sum.turns);
}

static long number(const char *option, const char *text, long least, long most) {
  char *rest = NULL;
  errno = 0;
  long value = strtol(text, &rest, 10);
  if(errno || !*text || *rest || value < least || value > most)
    fail("--%s takes a number from %ld to %ld, not %s", option, least, most, text);
  return value;
}

static enum wait way(const char *text) {
  static const char *const ways[] = {[POLL] = "poll", [WAIT] = "wait", [SELECT] = "select", [SLEEP] = "sleep"};
  for(size_t at = 0; at < sizeof(ways) / sizeof(*ways); at++)
    if(!strcmp(text, ways[at]))
      return (enum wait)at;
  fail("--wait takes poll, wait, select or sleep, not %s", text);
}

enum { MULTI = 1, WAY, EVERY, IDLE, TICK, FILES, PARALLEL, BUFFER, UPLOAD_BUFFER, RECEIVE, SEND, LIMIT, HTTP, CACERT, KEY, PUBKEY,
       KNOWN_HOSTS, USER, UNKNOWN_SIZE, EACH, NAGLE, VERSION };

static void read_options(int count, char **words) {
  static const struct option options[] = {
    {"multi", no_argument, NULL, MULTI},
    {"wait", required_argument, NULL, WAY},
    {"every-ms", required_argument, NULL, EVERY},
    {"idle-ms", required_argument, NULL, IDLE},
    {"tick-us", required_argument, NULL, TICK},
    {"files", required_argument, NULL, FILES},
    {"parallel", required_argument, NULL, PARALLEL},
    {"buffer", required_argument, NULL, BUFFER},
    {"upload-buffer", required_argument, NULL, UPLOAD_BUFFER},
    {"receive-window", required_argument, NULL, RECEIVE},
    {"send-window", required_argument, NULL, SEND},
    {"limit", required_argument, NULL, LIMIT},
    {"http", required_argument, NULL, HTTP},
    {"cacert", required_argument, NULL, CACERT},
    {"key", required_argument, NULL, KEY},
    {"pubkey", required_argument, NULL, PUBKEY},
    {"known-hosts", required_argument, NULL, KNOWN_HOSTS},
    {"user", required_argument, NULL, USER},
    {"unknown-size", no_argument, NULL, UNKNOWN_SIZE},
    {"each", no_argument, NULL, EACH},
    {"nagle", no_argument, NULL, NAGLE},
    {"version", no_argument, NULL, VERSION},
    {NULL, 0, NULL, 0},
  };
  set = (struct settings){.every_ms = 1000, .files = 1, .parallel = 1};
  for(int which, at = 0; (which = getopt_long(count, words, "", options, &at)) != -1;) {
    const char *option = which == '?' ? "" : options[at].name;
    switch(which) {
    case MULTI: set.multi = 1; break;
    case WAY: set.wait = way(optarg); break;
    case EVERY: set.every_ms = number(option, optarg, 0, 3600000); break;
    case IDLE: set.idle_ms = number(option, optarg, 0, 3600000); break;
    case TICK: set.tick_us = number(option, optarg, 0, 1000000); break;
    case FILES: set.files = number(option, optarg, 1, 100000); break;
    case PARALLEL: set.parallel = number(option, optarg, 1, 1000); break;
    case BUFFER: set.buffer = number(option, optarg, 1, INT32_MAX); break;
    case UPLOAD_BUFFER: set.upload_buffer = number(option, optarg, 1, INT32_MAX); break;
    case RECEIVE: set.receive_window = number(option, optarg, 1, INT32_MAX); break;
    case SEND: set.send_window = number(option, optarg, 1, INT32_MAX); break;
    case LIMIT: set.limit = number(option, optarg, 1, INT64_MAX); break;
    case HTTP: set.http = optarg; break;
    case CACERT: set.cacert = optarg; break;
    case KEY: set.key = optarg; break;
    case PUBKEY: set.pubkey = optarg; break;
    case KNOWN_HOSTS: set.known_hosts = optarg; break;
    case USER: set.user = optarg; break;
    case UNKNOWN_SIZE: set.unknown_size = 1; break;
    case EACH: set.each = 1; break;
    case NAGLE: set.nagle = 1; break;
    case VERSION: printf("application on %s\n", curl_version()); exit(0);
    default: exit(2);
    }
  }
  if(count - optind != 3 || (strcmp(words[optind], "get") && strcmp(words[optind], "put")))
    fail("usage: application [OPTIONS] get|put URL FILE");
  set.put = !strcmp(words[optind], "put");
  set.url = words[optind + 1];
  set.file = words[optind + 2];
  if(set.parallel > 1 && !set.multi)
    fail("--parallel needs --multi");
  if(set.multi && set.wait == POLL && !curl_multi_poll)
    fail("%s has no curl_multi_poll (since 7.66.0): use --wait wait", curl_version());
}

int main(int count, char **words) {
  read_options(count, words);
  curl_global_init(CURL_GLOBAL_ALL);
  sum.first = sum.last = -1;
  origin = monotonic();
  if(set.multi)
    run_multi();
  else
    run_easy();
  report(elapsed());
  if(sum.code)
    fprintf(stderr, "application: (%d) %s\n", (int)sum.code, sum.error);
  return sum.code;
}
