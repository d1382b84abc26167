/* Makes one call of a program to the system fail: LD_PRELOAD it, and TORTURE_AT=N fails the N-th of the calls below, over all threads.
   TORTURE_LOG names a file: what failed goes there ("N function kind errno"), or at the end how many calls there were, if none failed.
   TORTURE_HOW=interrupted fails with EINTR where the call can, once.
   TORTURE_SCRIPT="getsockopt:110 socket:24" fails instead the first getsockopt with errno 110, then the next socket with 24, and so on;
   0 lets one pass.

   Not here: allocation and mapping, which ferry as any Rust program does not survive; close, whose error says nothing that can be
   acted upon; getrandom, which does not fail once the system is up; epoll_wait, and reads and writes of an eventfd, which fail only
   where the program itself is wrong (they are interrupted here); clocks. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;
static long at = -1;
static int interrupted;
static const char *log_path, *script = "";

static void say(const char *text) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd >= 0) {
        syscall(SYS_write, fd, text, strlen(text));
        syscall(SYS_close, fd);
    }
}

__attribute__((constructor)) static void begin(void) {
    const char *number = getenv("TORTURE_AT"), *how = getenv("TORTURE_HOW");
    log_path = getenv("TORTURE_LOG");
    if (getenv("TORTURE_SCRIPT") != NULL)
        script = getenv("TORTURE_SCRIPT");
    interrupted = how != NULL && strcmp(how, "interrupted") == 0;
    at = number != NULL && log_path != NULL ? atol(number) : -1;
}

__attribute__((destructor)) static void end(void) {
    char line[64];
    if (at == 0) {
        snprintf(line, sizeof line, "%ld calls\n", atomic_load(&calls));
        say(line);
    }
}

enum kind { FILES, SOCKETS, SYSTEM };
static const char *const kinds[] = {"file", "socket", "system"};

/* What an open descriptor is of, asked without a call that counts. */
static enum kind kind_of(int fd) {
    struct stat facts;
    if (syscall(SYS_fstat, fd, &facts) != 0)
        return SYSTEM;
    if (S_ISSOCK(facts.st_mode))
        return SOCKETS;
    return S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode) || S_ISFIFO(facts.st_mode) || S_ISCHR(facts.st_mode) ? FILES : SYSTEM;
}

/* 0: go on. For a program of which one thread makes the calls. */
static int scripted(const char *name) {
    size_t length = strlen(name);
    if (strncmp(script, name, length) != 0 || script[length] != ':')
        return 0;
    char *end;
    int error = (int)strtol(script + length + 1, &end, 10);
    script = end + (*end == ' ');
    say(name);
    say("\n");
    return errno = error;
}

/* 0: go on. */
static int fails(const char *name, enum kind kind, int error, int may_be_interrupted) {
    char line[128];
    if (*script != 0)
        return scripted(name);
    if (at < 0 || atomic_fetch_add(&calls, 1) + 1 != at)
        return 0;
    error = !interrupted ? error : may_be_interrupted ? EINTR : 0;
    if (error == 0) {
        say("passed over\n");
        return 0;
    }
    snprintf(line, sizeof line, "%ld %s %s %d\n", at, name, kinds[kind], error);
    say(line);
    errno = error;
    return error;
}

static int io_error(enum kind kind, int writing) {
    return kind == SYSTEM ? 0 : kind == SOCKETS ? ECONNRESET : writing ? ENOSPC : EIO;
}

#define REAL(type, name, args) \
    static type(*real) args; \
    if (real == NULL) \
        real = (type(*) args)dlsym(RTLD_NEXT, #name)

#define FD_IO(type, name, writing, params, args) \
    type name params { \
        REAL(type, name, params); \
        enum kind kind = kind_of(fd); \
        if (fails(#name, kind, io_error(kind, writing), kind != SYSTEM)) \
            return -1; \
        return real args; \
    }

#define CALL(type, name, kind, error, interruptible, failed, params, args) \
    type name params { \
        REAL(type, name, params); \
        if (fails(#name, kind, error, interruptible)) \
            return failed; \
        return real args; \
    }

FD_IO(ssize_t, read, 0, (int fd, void *data, size_t size), (fd, data, size))
FD_IO(ssize_t, write, 1, (int fd, const void *data, size_t size), (fd, data, size))
FD_IO(ssize_t, readv, 0, (int fd, const struct iovec *parts, int count), (fd, parts, count))
FD_IO(ssize_t, writev, 1, (int fd, const struct iovec *parts, int count), (fd, parts, count))
FD_IO(ssize_t, pread64, 0, (int fd, void *data, size_t size, off64_t place), (fd, data, size, place))
FD_IO(ssize_t, pwrite64, 1, (int fd, const void *data, size_t size, off64_t place), (fd, data, size, place))
FD_IO(ssize_t, recv, 0, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
FD_IO(ssize_t, send, 1, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
FD_IO(int, fsync, 1, (int fd), (fd))
FD_IO(int, fdatasync, 1, (int fd), (fd))
FD_IO(int, ftruncate64, 1, (int fd, off64_t size), (fd, size))

CALL(int, socket, SOCKETS, EMFILE, 0, -1, (int domain, int type, int protocol), (domain, type, protocol))
CALL(int, connect, SOCKETS, ECONNREFUSED, 1, -1, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size))
CALL(int, getsockopt, SOCKETS, ENOBUFS, 0, -1, (int fd, int level, int name, void *value, socklen_t *size), (fd, level, name, value, size))
CALL(int, setsockopt, SOCKETS, ENOBUFS, 0, -1, (int fd, int level, int name, const void *value, socklen_t size),
     (fd, level, name, value, size))
CALL(int, getpeername, SOCKETS, ENOTCONN, 0, -1, (int fd, struct sockaddr *of, socklen_t *size), (fd, of, size))
CALL(int, getsockname, SOCKETS, ENOBUFS, 0, -1, (int fd, struct sockaddr *of, socklen_t *size), (fd, of, size))
CALL(int, shutdown, SOCKETS, ENOTCONN, 0, -1, (int fd, int how), (fd, how))
CALL(int, getaddrinfo, SOCKETS, EAI_AGAIN, 0, EAI_AGAIN,
     (const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found), (name, service, hints, found))

CALL(int, epoll_create1, SYSTEM, EMFILE, 0, -1, (int flags), (flags))
CALL(int, epoll_ctl, SYSTEM, ENOSPC, 0, -1, (int fd, int what, int of, struct epoll_event *event), (fd, what, of, event))
CALL(int, epoll_wait, SYSTEM, 0, 1, -1, (int fd, struct epoll_event *events, int count, int wait_ms), (fd, events, count, wait_ms))
CALL(int, poll, SYSTEM, ENOMEM, 1, -1, (struct pollfd *fds, nfds_t count, int wait_ms), (fds, count, wait_ms))
CALL(int, eventfd, SYSTEM, EMFILE, 0, -1, (unsigned int value, int flags), (value, flags))
CALL(int, dup, SYSTEM, EMFILE, 0, -1, (int fd), (fd))
CALL(int, pthread_create, SYSTEM, EAGAIN, 0, EAGAIN,
     (pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *of), (thread, how, run, of))

CALL(off64_t, lseek64, FILES, ESPIPE, 0, -1, (int fd, off64_t place, int from), (fd, place, from))
CALL(int, flock, FILES, ENOLCK, 1, -1, (int fd, int how), (fd, how))
CALL(int, fchmod, FILES, EPERM, 0, -1, (int fd, mode_t mode), (fd, mode))
CALL(int, rename, FILES, EACCES, 0, -1, (const char *from, const char *to), (from, to))
CALL(int, renameat2, FILES, EACCES, 0, -1, (int from, const char *old, int to, const char *new, unsigned int flags),
     (from, old, to, new, flags))
CALL(int, linkat, FILES, EACCES, 0, -1, (int from, const char *old, int to, const char *new, int flags), (from, old, to, new, flags))
CALL(int, unlink, FILES, EACCES, 0, -1, (const char *path), (path))
CALL(int, mkdir, FILES, EACCES, 0, -1, (const char *path, mode_t mode), (path, mode))
CALL(int, stat64, FILES, EIO, 0, -1, (const char *path, struct stat64 *facts), (path, facts))
CALL(int, lstat64, FILES, EIO, 0, -1, (const char *path, struct stat64 *facts), (path, facts))
CALL(int, fstat64, FILES, EIO, 0, -1, (int fd, struct stat64 *facts), (fd, facts))
CALL(int, fstatat64, FILES, EIO, 0, -1, (int fd, const char *path, struct stat64 *facts, int flags), (fd, path, facts, flags))
CALL(int, statx, FILES, EIO, 0, -1, (int fd, const char *path, int flags, unsigned int what, struct statx *facts),
     (fd, path, flags, what, facts))
CALL(int, faccessat, FILES, EIO, 0, -1, (int fd, const char *path, int mode, int flags), (fd, path, mode, flags))
CALL(ssize_t, readlink, FILES, EIO, 0, -1, (const char *path, char *to, size_t size), (path, to, size))
CALL(char *, realpath, FILES, EIO, 0, NULL, (const char *path, char *to), (path, to))
CALL(char *, getcwd, FILES, ENOENT, 0, NULL, (char *to, size_t size), (to, size))
CALL(DIR *, opendir, FILES, EMFILE, 0, NULL, (const char *path), (path))
CALL(struct dirent64 *, readdir64, FILES, EIO, 0, NULL, (DIR *folder), (folder))

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, (const char *, int, ...)); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = va_arg(more, mode_t); \
        va_end(more); \
        if (fails(#name, FILES, EMFILE, 1)) \
            return -1; \
        return real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define CONTROL(name, type) \
    int name(int fd, type what, ...) { \
        REAL(int, name, (int, type, ...)); \
        va_list more; \
        va_start(more, what); \
        void *value = va_arg(more, void *); \
        va_end(more); \
        if (fails(#name, kind_of(fd) == FILES ? FILES : SYSTEM, EINVAL, 0)) \
            return -1; \
        return real(fd, what, value); \
    }
CONTROL(fcntl, int)
CONTROL(ioctl, unsigned long)
