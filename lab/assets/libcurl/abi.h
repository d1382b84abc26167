/* The part of libcurl's interface that the application uses, for every version from 7.61 on.
 *
 * Why not <curl/curl.h>: wheels and Debian's libcurl4 hold the library without headers, and one source must compile for all of
 * them. libcurl never changes the number of an option. Where a version comes with its header, -DCHECK_HEADER compares. */

#define OPTIONS(O) \
  O(WRITEDATA, 10001) O(URL, 10002) O(READDATA, 10009) O(ERRORBUFFER, 10010) O(HTTPHEADER, 10023) \
  O(CAINFO, 10065) O(SSH_PUBLIC_KEYFILE, 10152) O(SSH_PRIVATE_KEYFILE, 10153) O(SOCKOPTDATA, 10149) O(USERNAME, 10173) \
  O(SSH_KNOWNHOSTS, 10183) O(SEEKDATA, 10168) O(PRIVATE, 10103) \
  O(WRITEFUNCTION, 20011) O(READFUNCTION, 20012) O(SOCKOPTFUNCTION, 20148) O(SEEKFUNCTION, 20167) \
  O(FAILONERROR, 45) O(UPLOAD, 46) O(HTTP_VERSION, 84) O(BUFFERSIZE, 98) O(NOSIGNAL, 99) O(TCP_NODELAY, 121) \
  O(PIPEWAIT, 237) O(UPLOAD_BUFFERSIZE, 280) \
  O(INFILESIZE_LARGE, 30115) O(MAX_SEND_SPEED_LARGE, 30145) O(MAX_RECV_SPEED_LARGE, 30146)

#define INFOS(I) \
  I(PRIVATE, 0x100015) I(RESPONSE_CODE, 0x200002) I(NUM_CONNECTS, 0x20001a) I(HTTP_VERSION, 0x20002e) \
  I(NAMELOOKUP_TIME, 0x300004) I(CONNECT_TIME, 0x300005) I(PRETRANSFER_TIME, 0x300006) I(APPCONNECT_TIME, 0x300021)

#ifdef CHECK_HEADER

#include <curl/curl.h>
#define CHECK_OPTION(name, number) _Static_assert(CURLOPT_##name == number, "CURLOPT_" #name);
#define CHECK_INFO(name, number) _Static_assert((int)CURLINFO_##name == number, "CURLINFO_" #name);
OPTIONS(CHECK_OPTION)
INFOS(CHECK_INFO)
_Static_assert(CURLMSG_DONE == 1 && CURLE_READ_ERROR == 26 && CURLE_WRITE_ERROR == 23 && CURLE_UNKNOWN_OPTION == 48, "codes");
_Static_assert(CURL_HTTP_VERSION_1_1 == 2 && CURL_HTTP_VERSION_2_0 == 3 && CURL_READFUNC_ABORT == 0x10000000, "constants");

#else

#define DEFINE_OPTION(name, number) CURLOPT_##name = number,
#define DEFINE_INFO(name, number) CURLINFO_##name = number,
enum { OPTIONS(DEFINE_OPTION) INFOS(DEFINE_INFO) };
enum {
  CURLMSG_DONE = 1,
  CURLE_WRITE_ERROR = 23,
  CURLE_READ_ERROR = 26,
  CURLE_UNKNOWN_OPTION = 48,
  CURL_HTTP_VERSION_1_1 = 2,
  CURL_HTTP_VERSION_2_0 = 3,
  CURL_READFUNC_ABORT = 0x10000000,
  CURL_GLOBAL_ALL = 3,
  CURL_ERROR_SIZE = 256
};
typedef void CURL;
typedef void CURLM;
typedef int CURLcode;
typedef int CURLMcode;
typedef long long curl_off_t;
struct curl_slist;
typedef struct {
  int msg;
  CURL *easy_handle;
  union {
    void *whatever;
    CURLcode result;
  } data;
} CURLMsg;
struct curl_waitfd;
CURLcode curl_global_init(long flags);
char *curl_version(void);
CURL *curl_easy_init(void);
CURLcode curl_easy_setopt(CURL *, int, ...);
CURLcode curl_easy_getinfo(CURL *, int, ...);
CURLcode curl_easy_perform(CURL *);
void curl_easy_cleanup(CURL *);
const char *curl_easy_strerror(CURLcode);
struct curl_slist *curl_slist_append(struct curl_slist *, const char *);
CURLM *curl_multi_init(void);
CURLMcode curl_multi_add_handle(CURLM *, CURL *);
CURLMcode curl_multi_remove_handle(CURLM *, CURL *);
CURLMcode curl_multi_perform(CURLM *, int *);
CURLMcode curl_multi_wait(CURLM *, struct curl_waitfd *, unsigned int, int, int *);
CURLMcode curl_multi_timeout(CURLM *, long *);
CURLMcode curl_multi_fdset(CURLM *, fd_set *, fd_set *, fd_set *, int *);
CURLMsg *curl_multi_info_read(CURLM *, int *);
const char *curl_multi_strerror(CURLMcode);
CURLMcode curl_multi_cleanup(CURLM *);

#endif

/* Since 7.66.0; a null pointer before. */
CURLMcode curl_multi_poll(CURLM *, struct curl_waitfd *, unsigned int, int, int *) __attribute__((weak));
