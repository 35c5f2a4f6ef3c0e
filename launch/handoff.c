/* The launcher's side of what launch/server/protocol.py describes. */
#define _GNU_SOURCE
#include "handoff.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    /* Of a request, with stdin. */
    DESCRIPTORS = 5,
    /* For the worker to undo its steps; it gives up before. */
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

/*
 * A connection to the server with the request on it; -1 if a part of it cannot be had, or is too long. Connecting wakes
 * a worker, which should not have to wait for the request: so that is ready before.
 */
static int ask(const char *path, uint32_t limit_ms, int token, const struct request *request)
{
    struct header header = {.magic = "CNIH\4"};
    char *start = request->environment[0], *end = start;
    /* The kernel lays out the environment without gaps, so one piece of memory holds all of it. */
    for (char **variable = request->environment; *variable; variable++) {
        if (*variable != end)
            return -1;
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
        token,
        STDIN_FILENO,
    };
    const size_t count = request->closed & 1u << STDIN_FILENO ? DESCRIPTORS - 1 : DESCRIPTORS;
    int connection = connect_to(path, limit_ms);

    if (connection < 0 || send_packet(connection, parts, sizeof(parts) / sizeof(parts[0]), descriptors, count))
        return connection;
    close(connection);
    return -1;
}

/* Take the token, which says whose the call is; false if the worker has it. */
static bool take(int token)
{
    uint64_t count;

    return read(token, &count, sizeof(count)) == sizeof(count);
}

/* The signals that end us, and the one that an answer which nobody reads would end us by. */
static sigset_t signals_of(bool with_pipe)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (with_pipe)
        sigaddset(&set, SIGPIPE);
    return set;
}

/* The signal that has come; 0 if it would not have ended us. */
static int ending_signal(int signals, const sigset_t *blocked)
{
    struct signalfd_siginfo arrived;
    struct sigaction action;
    int number;

    if (read(signals, &arrived, sizeof(arrived)) != sizeof(arrived))
        return 0;
    number = (int)arrived.ssi_signo;
    return sigismember(blocked, number) != 1 && sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN
               ? number
               : 0;
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

/* Python's texts for the errors of a stdout. */
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
    if (size == KIND_BYTES && packet[0] == 'R') {
        send(connection, "G", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        return false;
    }
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

/* Die of a signal, as its sender expects it. */
static int die(int number)
{
    sigset_t set;

    raise(number);
    /* That one alone: another may have come meanwhile. */
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return 128 + number; /* the first process of a PID namespace survives itself */
}

/*
 * Tell the worker of the signal and wait for its answer; then die. A call that had succeeded before it was told has
 * its success: the result is on stdout.
 */
static int end_call(int connection, int number, struct answer *answer)
{
    struct pollfd event = {.fd = connection, .events = POLLIN};
    int64_t deadline = now_ms() + UNDO_MS, left;
    enum service service = ABANDONED;

    send(connection, (char[]){'T', (char)number}, 2, MSG_DONTWAIT | MSG_NOSIGNAL);
    while ((left = deadline - now_ms()) > 0)
        if (poll(&event, 1, (int)left) > 0 && is_over(connection, answer, &service))
            break;
    return service == SERVED && answer->code == 0 ? 0 : die(number);
}

/* Wait for a request to end, until the deadline only if no worker has taken the token. */
static enum service outcome(int connection, int token, int signals, const sigset_t *blocked, int64_t deadline,
                            const struct request *request, int *code)
{
    struct pollfd events[] = {{.fd = connection, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    struct answer answer = {.request = request, .code = 1};
    bool is_ours = true; /* as far as we know */
    enum service service;
    int number;

    for (;;) {
        int64_t left = is_ours ? deadline - now_ms() : -1;

        if (is_ours && left <= 0) {
            if (take(token))
                return UNSERVED;
            is_ours = false;
        } else if (poll(events, 2, (int)left) <= 0) {
            continue; /* the deadline; or EINTR, after a SIGSTOP and its SIGCONT */
        } else if (events[0].revents) {
            if (is_over(connection, &answer, &service)) {
                if (service == ABANDONED && !answer.is_begun && take(token))
                    return UNSERVED;
                *code = answer.code;
                return answer.is_begun ? SERVED : service;
            }
        } else if ((number = ending_signal(signals, blocked))) {
            *code = take(token) ? die(number) : end_call(connection, number, &answer);
            return SERVED;
        }
    }
}

enum service have_served(const char *socket_path, uint32_t timeout_ms, const struct request *request, int *code)
{
    int64_t deadline = now_ms() + timeout_ms;
    int connection = -1, signals, token;
    sigset_t ending = signals_of(false), blocked = signals_of(true), before;
    enum service service = UNSERVED;

    /* From before the worker can take the token, so that no signal is lost in between. */
    sigprocmask(SIG_BLOCK, &blocked, &before);
    signals = signalfd(-1, &ending, SFD_CLOEXEC);
    token = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signals >= 0 && token >= 0)
        connection = ask(socket_path, timeout_ms, token, request);
    if (connection >= 0)
        service = outcome(connection, token, signals, &before, deadline, request, code);
    if (service == UNSERVED) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        /* The caller's limit of open files may be low. */
        close(connection);
        close(token);
        close(signals);
    }
    return service;
}
