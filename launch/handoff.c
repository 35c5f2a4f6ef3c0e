/* The launcher's side of what launch/server/protocol.py describes. */
#define _GNU_SOURCE
#include "handoff.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* 32 and 33: no program can ignore or block them by way of glibc. */
#define PRIVATE_SIGNALS (UINT64_C(3) << 31)

enum {
    CIRCUMSTANCES = 4,
    /* For the worker to take back what it has done, which it gives up before. */
    UNDO_MS = 25000,
    /* Of the kernel's sigset_t; NSIG may be one more. */
    SIGNALS = 64,
};

struct header {
    char magic[8];
    unsigned char build_id[BUILD_ID_BYTES];
    uint32_t umask;
    uint32_t closed;
    uint64_t blocked;
    uint64_t ignored;
};
_Static_assert(sizeof(struct header) == 48, "the header has no padding");

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Signals as the kernel's masks have them, signal N as bit N-1; without those that glibc keeps to itself. */
static uint64_t blocked_signals(void)
{
    sigset_t set;
    uint64_t mask = 0;

    sigprocmask(SIG_BLOCK, NULL, &set);
    for (int number = 1; number <= SIGNALS; number++)
        if (sigismember(&set, number) == 1)
            mask |= UINT64_C(1) << (number - 1);
    return mask & ~PRIVATE_SIGNALS;
}

static uint64_t ignored_signals(void)
{
    struct sigaction action;
    uint64_t mask = 0;

    for (int number = 1; number <= SIGNALS; number++)
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            mask |= UINT64_C(1) << (number - 1);
    return mask & ~PRIVATE_SIGNALS;
}

/* A server that may have our namespaces in its hands is root's, or of the user who asks. */
static bool is_trusted(int connection)
{
    struct ucred server;
    socklen_t size = sizeof(server);

    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &server, &size) == 0 &&
           (server.uid == 0 || server.uid == geteuid());
}

/* A connection to the server, at the latest after the time limit; -1 without one. */
static int connect_to(const char *path, uint32_t limit_ms)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = limit_ms / 1000, .tv_usec = limit_ms % 1000 * 1000};
    int connection;

    if (!*path || strlen(path) >= sizeof(address.sun_path))
        return -1;
    strcpy(address.sun_path, path);
    connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connection < 0)
        return -1;
    /* The time limit of connect, too, which waits where the server's queue is full. */
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(connection, (struct sockaddr *)&address, sizeof(address)) == 0 && is_trusted(connection))
        return connection;
    close(connection);
    return -1;
}

/* Send a packet with its descriptors; false where that cannot be. */
static bool send_packet(int connection, struct iovec *parts, size_t part_count, const int *descriptors, size_t count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int[CIRCUMSTANCES]))]; /* there are fewer streams */
    } control = {0};
    struct msghdr message = {
        .msg_iov = parts,
        .msg_iovlen = part_count,
        .msg_control = control.bytes,
        .msg_controllen = CMSG_SPACE(sizeof(int) * count),
    };
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);

    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(rights), descriptors, sizeof(int) * count);
    return sendmsg(connection, &message, MSG_NOSIGNAL) >= 0;
}

/* Send the request; false where a part of it cannot be had or is too long. */
static bool send_request(int connection, const struct request *request)
{
    struct header header = {.magic = "CNIH\2", .closed = request->closed};
    char *start = request->environment[0], *end = start;
    /* The kernel lays out the environment without gaps, so one piece of memory holds all of it. */
    for (char **variable = request->environment; *variable; variable++) {
        if (*variable != end)
            return false;
        end += strlen(end) + 1;
    }

    memcpy(header.build_id, request->build_id, sizeof(header.build_id));
    header.umask = umask(0);
    umask((mode_t)header.umask);
    header.blocked = blocked_signals();
    header.ignored = ignored_signals();

    struct iovec parts[] = {
        {&header, sizeof(header)},
        {(void *)request->name, strlen(request->name) + 1},
        {start, (size_t)(end - start)},
    };
    /* One that cannot be opened is -1, which sendmsg refuses. */
    const int descriptors[CIRCUMSTANCES] = {
        open(".", O_PATH | O_DIRECTORY | O_CLOEXEC),
        open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC),
        open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC),
        open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
    };
    return send_packet(connection, parts, sizeof(parts) / sizeof(parts[0]), descriptors, CIRCUMSTANCES);
}

/* Send `G`, and the streams; false where nobody is there any more. */
static bool send_go(int connection, uint32_t closed)
{
    struct iovec go = {"G", 1};
    int descriptors[STREAMS];
    size_t count = 0;

    for (int stream = 0; stream < STREAMS; stream++)
        if (!(closed & 1u << stream))
            descriptors[count++] = stream;
    return send_packet(connection, &go, 1, descriptors, count);
}

/* Whether the server says `R` before the deadline. */
static bool is_ready(int connection, int64_t deadline)
{
    struct pollfd answer = {.fd = connection, .events = POLLIN};
    int64_t left = deadline - now_ms();
    char packet[2];

    poll(&answer, 1, left > 0 ? (int)left : 0);
    return recv(connection, packet, sizeof(packet), MSG_DONTWAIT) == 1 && packet[0] == 'R';
}

/* The signals that are to end the worker along with us: not those that would not end us. */
static sigset_t ending_signals(void)
{
    const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
    uint64_t immune = blocked_signals() | ignored_signals();
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (!(immune >> (numbers[i] - 1) & 1))
            sigaddset(&set, numbers[i]);
    return set;
}

/* The server's next word: `W`, or `X` with its exit code; 0 where it will say neither. */
static char next_word(int connection, int32_t *code)
{
    char word[6];
    ssize_t size = recv(connection, word, sizeof(word), MSG_DONTWAIT);

    if (size == 1 && word[0] == 'W')
        return 'W';
    if (size != 1 + sizeof(*code) || word[0] != 'X')
        return 0;
    memcpy(code, word + 1, sizeof(*code));
    return 'X';
}

/*
 * Tell the worker of the signal and wait for its end; then die as the sender of the signal expects it. A worker that had
 * succeeded before it was told has its success: the result is on stdout.
 */
static int die_of(int connection, int signals)
{
    struct pollfd answer = {.fd = connection, .events = POLLIN};
    struct signalfd_siginfo arrived;
    int64_t deadline = now_ms() + UNDO_MS, left;
    unsigned char packet[] = {'T', 0};
    int32_t code;
    sigset_t set;
    char word = 0;

    if (read(signals, &arrived, sizeof(arrived)) != sizeof(arrived))
        return 1;
    packet[1] = (unsigned char)arrived.ssi_signo;
    send(connection, packet, sizeof(packet), MSG_DONTWAIT | MSG_NOSIGNAL);
    while ((left = deadline - now_ms()) > 0)
        if (poll(&answer, 1, (int)left) > 0 && (word = next_word(connection, &code)) != 'W')
            break;
    if (word == 'X' && code == 0)
        return 0;
    raise((int)arrived.ssi_signo);
    /* That one alone: another may have come meanwhile. */
    sigemptyset(&set);
    sigaddset(&set, (int)arrived.ssi_signo);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return 128 + (int)arrived.ssi_signo; /* the first process of a PID namespace survives itself */
}

/* Wait for an accepted request to end. */
static enum service outcome(int connection, int signals, int *code)
{
    struct pollfd events[] = {{.fd = connection, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    bool answers = false;
    int32_t told;

    for (;;) {
        if (poll(events, 2, -1) < 0)
            continue; /* EINTR, after a SIGSTOP and its SIGCONT */
        if (events[0].revents) {
            switch (next_word(connection, &told)) {
            case 'W':
                answers = true;
                break;
            case 'X':
                *code = told;
                return SERVED;
            default:
                *code = 1;
                return answers ? SERVED : ABANDONED;
            }
        } else if (events[1].revents) {
            *code = die_of(connection, signals);
            return SERVED;
        }
    }
}

enum service have_served(const char *socket_path, uint32_t patience_ms, const struct request *request, int *code)
{
    int64_t deadline = now_ms() + patience_ms;
    int connection = connect_to(socket_path, patience_ms), signals;
    sigset_t ending, before;

    if (connection < 0 || !send_request(connection, request) || !is_ready(connection, deadline))
        return UNSERVED;
    /* From before the `G`, so that no signal is lost in between. */
    ending = ending_signals();
    sigprocmask(SIG_BLOCK, &ending, &before);
    signals = signalfd(-1, &ending, SFD_CLOEXEC);
    if (signals >= 0 && send_go(connection, request->closed))
        return outcome(connection, signals, code);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return UNSERVED;
}
