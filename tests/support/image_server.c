/* A server of files for images in tests: one static program, so that an image needs nothing else.

GET /NAME sends $FILES/NAME; PUT /NAME writes /data/NAME with the rights of the image's user. One connection at a time. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void answer(int to, const char *status, long length) {
    dprintf(to, "HTTP/1.1 %s\r\nContent-Length: %ld\r\nConnection: close\r\n\r\n", status, length);
}

static void serve(int to) {
    static char head[65536], path[4096];
    size_t have = 0;
    char *end = NULL;
    while (!end && have < sizeof head - 1) {
        ssize_t more = read(to, head + have, sizeof head - 1 - have);
        if (more <= 0) return;
        have += (size_t)more;
        head[have] = 0;
        end = strstr(head, "\r\n\r\n");
    }
    if (!end) return;
    char method[8], name[256];
    if (sscanf(head, "%7s /%255s", method, name) != 2) return;
    int put = !strcmp(method, "PUT");
    snprintf(path, sizeof path, "%s/%s", put ? "/data" : getenv("FILES"), name);
    int file = put ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644) : open(path, O_RDONLY);
    if (file < 0) {
        answer(to, "404 Not Found", 0);
        return;
    }
    long size = 0;
    if (put) {
        char *length = strcasestr(head, "content-length:");
        size = length ? atol(length + 15) : 0;
        long left = size;
        size_t first = have - (size_t)(end + 4 - head);
        if (write(file, end + 4, first) < 0) return;
        left -= (long)first;
        while (left > 0) {
            ssize_t got = read(to, head, sizeof head);
            if (got <= 0 || write(file, head, (size_t)got) < 0) return;
            left -= got;
        }
        answer(to, "201 Created", 0);
    } else {
        struct stat found;
        fstat(file, &found);
        answer(to, "200 OK", (long)found.st_size);
        ssize_t got;
        while ((got = read(file, head, sizeof head)) > 0 && write(to, head, (size_t)got) > 0) {}
    }
    close(file);
}

int main(int count, char **words) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(words[count - 1]))};
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (getuid() == 0 || bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 16)) {
        fprintf(stderr, "cannot serve as user %d\n", (int)getuid());
        return 1;
    }
    for (;;) {
        int to = accept(listener, NULL, NULL);
        if (to < 0) continue;
        serve(to);
        shutdown(to, SHUT_WR);
        close(to);
    }
}
