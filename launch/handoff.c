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

enum {
    DESCRIPTORS = 3,
    /* For the worker to take back what it has done, which it gives up before. */
    UNDO_MS = 25000,
    /* Of a packet: its kind, the exit code, the length of the first text, and the texts. */
    KIND_BYTES = 1,
    END_BYTES = KIND_BYTES + 4 + 4,
    PIECE_BYTES = 1 << 16,
};

struct header {
    char magic[8];
    unsigned char build_id[BUILD_ID_BYTES];
    uint32_t umask;
};
_Static_assert(sizeof(struct header) == 28, "the header has no padding");

/* An answer as far as it has come. */
struct answer {
    const struct request *request;
    int32_t code;
    bool is_begun; /* something is on stdout */
    bool is_lost;  /* something could not be written there */
};

static char packet[END_BYTES + PIECE_BYTES];

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
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
        char bytes[CMSG_SPACE(sizeof(int[DESCRIPTORS]))];
    } control = {0};
    struct msghdr message = {
        .msg_iov = parts,
        .msg_iovlen = part_count,
    };
    struct cmsghdr *rights = &control.align;

    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    }
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(rights), descriptors, sizeof(int) * count);
    return sendmsg(connection, &message, MSG_NOSIGNAL) >= 0;
}

/* Send the request; false where a part of it cannot be had or is too long. */
static bool send_request(int connection, const struct request *request)
{
    struct header header = {.magic = "CNIH\3"};
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

    struct iovec parts[] = {
        {&header, sizeof(header)},
        {(void *)request->name, strlen(request->name) + 1},
        {start, (size_t)(end - start)},
    };
    /* One that cannot be opened is -1, which sendmsg refuses. */
    const int descriptors[DESCRIPTORS] = {
        open(".", O_PATH | O_DIRECTORY | O_CLOEXEC),
        open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC),
        open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC),
    };
    return send_packet(connection, parts, sizeof(parts) / sizeof(parts[0]), descriptors, DESCRIPTORS);
}

/* Send `G`, and stdin; false where nobody is there any more. */
static bool send_go(int connection, uint32_t closed)
{
    struct iovec go = {"G", 1};
    const int descriptor = STDIN_FILENO;

    return send_packet(connection, &go, 1, &descriptor, !(closed & 1u << STDIN_FILENO));
}

/* Whether the server says `R` before the deadline. */
static bool is_ready(int connection, int64_t deadline)
{
    struct pollfd answer = {.fd = connection, .events = POLLIN};
    int64_t left = deadline - now_ms();

    poll(&answer, 1, left > 0 ? (int)left : 0);
    return recv(connection, packet, 2, MSG_DONTWAIT) == 1 && packet[0] == 'R';
}

/* The signals that end us and then the call: those that are neither blocked nor ignored. */
static sigset_t ending_signals(void)
{
    const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
    struct sigaction action;
    sigset_t set, blocked;

    sigprocmask(SIG_BLOCK, NULL, &blocked);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigismember(&blocked, numbers[i]) != 1 && sigaction(numbers[i], NULL, &action) == 0 &&
            action.sa_handler != SIG_IGN)
            sigaddset(&set, numbers[i]);
    return set;
}

/* Write all of a text; 0, or the number of the error. */
static int write_all(int stream, const char *text, size_t size)
{
    while (size > 0) {
        struct iovec part = {(void *)text, size};
        ssize_t written = writev(stream, &part, 1);

        if (written < 0 && errno != EINTR)
            return errno;
        if (written > 0) {
            text += written;
            size -= (size_t)written;
        }
    }
    return 0;
}

/* What Python says of an error, for those that a stdout has. */
static const char *reason(int error)
{
    switch (error) {
    case EBADF:
        return "[Errno 9] Bad file descriptor\n";
    case ENOSPC:
        return "[Errno 28] No space left on device\n";
    case EPIPE:
        return "[Errno 32] Broken pipe\n";
    default:
        return "an error\n";
    }
}

/* Write a text of the call's to one of our streams. A failure to write the log is ignored; a failure to write the answer is logged. */
static void pass_on(struct answer *answer, int stream, const char *text, size_t size)
{
    int error;

    if (size == 0 || (stream == STDOUT_FILENO && answer->is_lost))
        return;
    error = answer->request->closed & 1u << stream ? EBADF : write_all(stream, text, size);
    if (stream != STDOUT_FILENO)
        return;
    answer->is_begun = true;
    if (error != 0) {
        const char *parts[] = {answer->request->name, ": writing to stdout: ", reason(error)};

        answer->is_lost = true;
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
            pass_on(answer, STDERR_FILENO, parts[i], strlen(parts[i]));
    }
}

/* Take the server's next packet; whether it is the end of the answer, or the server has nothing more to say. */
static bool is_over(int connection, struct answer *answer, enum service *service)
{
    ssize_t size = recv(connection, packet, sizeof(packet), MSG_DONTWAIT);
    uint32_t log_size;

    *service = ABANDONED;
    if (size >= KIND_BYTES && (packet[0] == 'E' || packet[0] == 'O')) {
        pass_on(answer, packet[0] == 'E' ? STDERR_FILENO : STDOUT_FILENO, packet + KIND_BYTES, (size_t)size - KIND_BYTES);
        return false;
    }
    if (size < END_BYTES || packet[0] != 'X')
        return true;
    memcpy(&answer->code, packet + KIND_BYTES, sizeof(answer->code));
    memcpy(&log_size, packet + KIND_BYTES + sizeof(answer->code), sizeof(log_size));
    if (log_size > (size_t)size - END_BYTES)
        return true;
    pass_on(answer, STDERR_FILENO, packet + END_BYTES, log_size);
    pass_on(answer, STDOUT_FILENO, packet + END_BYTES + log_size, (size_t)size - END_BYTES - log_size);
    if (answer->is_lost && answer->code == 0)
        answer->code = 1;
    *service = SERVED;
    return true;
}

/*
 * Tell the worker of the signal and wait for its answer; then die as the sender of the signal expects it. A call that
 * had succeeded before it was told has its success: the result is on stdout.
 */
static int die_of(int connection, int signals, struct answer *answer)
{
    struct pollfd event = {.fd = connection, .events = POLLIN};
    struct signalfd_siginfo arrived;
    int64_t deadline = now_ms() + UNDO_MS, left;
    enum service service = ABANDONED;
    sigset_t set;

    if (read(signals, &arrived, sizeof(arrived)) != sizeof(arrived))
        return 1;
    send(connection, (char[]){'T', (char)arrived.ssi_signo}, 2, MSG_DONTWAIT | MSG_NOSIGNAL);
    while ((left = deadline - now_ms()) > 0)
        if (poll(&event, 1, (int)left) > 0 && is_over(connection, answer, &service))
            break;
    if (service == SERVED && answer->code == 0)
        return 0;
    raise((int)arrived.ssi_signo);
    /* That one alone: another may have come meanwhile. */
    sigemptyset(&set);
    sigaddset(&set, (int)arrived.ssi_signo);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return 128 + (int)arrived.ssi_signo; /* the first process of a PID namespace survives itself */
}

/* Wait for an accepted request to end. */
static enum service outcome(int connection, int signals, const struct request *request, int *code)
{
    struct pollfd events[] = {{.fd = connection, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    struct answer answer = {.request = request, .code = 1};
    enum service service;

    /* The exit code tells more than an end by this signal would. */
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    for (;;) {
        if (poll(events, 2, -1) < 0)
            continue; /* EINTR, after a SIGSTOP and its SIGCONT */
        if (events[0].revents) {
            if (is_over(connection, &answer, &service)) {
                *code = answer.code;
                return answer.is_begun ? SERVED : service;
            }
        } else if (events[1].revents) {
            *code = die_of(connection, signals, &answer);
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
        return outcome(connection, signals, request, code);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return UNSERVED;
}
