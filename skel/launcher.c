/*
 * The executable behind every plugin's name: it has the fork server run the plugin, and becomes the plugin itself
 * where there is none.
 *
 * What passes between the two is described in skel/forkserver/handoff.py. Up to the `G` that this sends, whatever goes
 * wrong leads to direct execution, in circumstances that nothing here has changed; after it, never.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* 32 and 33: no program can ignore or block them by way of glibc. */
#define PRIVATE_SIGNALS (UINT64_C(3) << 31)
#define MARKER "cni-harness launcher 1\n"

enum {
    STREAMS = 3,
    CIRCUMSTANCES = 4,
    /* For the worker to take back what it has done, which it gives up before. */
    UNDO_MS = 25000,
    /* Of the kernel's sigset_t; NSIG may be one more. */
    SIGNALS = 64,
    /* Exit code of a launcher that skel.launcher has not filled in. */
    NOT_INSTALLED = 121,
};

/* Filled in by skel.launcher, in the bytes of a copy of the file; the strings are ended by NUL each. */
struct settings {
    char marker[24];
    unsigned char build_id[16];
    uint32_t patience_ms;
    /* The path of the server's socket (empty: ask none), the interpreter, the program that it is to run. */
    char strings[4092];
};

static const struct settings patched = {.marker = MARKER};

/* By a pointer that the compiler must read: it would otherwise reckon with what `patched` holds at build time. */
static const struct settings *const volatile settings_at = &patched;

struct header {
    char magic[8];
    unsigned char build_id[16];
    uint32_t umask;
    uint32_t closed;
    uint64_t blocked;
    uint64_t ignored;
};
_Static_assert(sizeof(struct header) == 48, "the header has no padding");

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The file's name, as a script knows it; a file executed by its descriptor (fexecve) has only what argv[0] says. */
static const char *plugin_name(const char *argv0)
{
    const char *file = (const char *)getauxval(AT_EXECFN);
    const char *name = file ? base_name(file) : "";

    return name[strspn(name, "0123456789")] || !argv0 ? name : base_name(argv0);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Those of stdin, stdout and stderr that are closed; to be asked before anything is opened in their places. */
static uint32_t closed_streams(void)
{
    uint32_t closed = 0;

    for (int stream = 0; stream < STREAMS; stream++)
        if (fcntl(stream, F_GETFD) < 0)
            closed |= 1u << stream;
    return closed;
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
static bool send_request(int connection, const char *name, uint32_t closed, char **environ_)
{
    struct header header = {.magic = "CNIH\2", .closed = closed};
    char *start = environ_[0], *end = start;
    /* The kernel lays out the environment without gaps, so one piece of memory holds all of it. */
    for (char **variable = environ_; *variable; variable++) {
        if (*variable != end)
            return false;
        end += strlen(end) + 1;
    }

    memcpy(header.build_id, settings_at->build_id, sizeof(header.build_id));
    header.umask = umask(0);
    umask((mode_t)header.umask);
    header.blocked = blocked_signals();
    header.ignored = ignored_signals();

    struct iovec parts[] = {
        {&header, sizeof(header)},
        {(void *)name, strlen(name) + 1},
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

static void say(int stream, const char *first, const char *second, const char *third)
{
    struct iovec parts[] = {
        {(void *)first, strlen(first)},
        {(void *)second, strlen(second)},
        {(void *)third, strlen(third)},
    };

    /* The exit code tells more than an end by this signal would. */
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    while (writev(stream, parts, 3) < 0 && errno == EINTR)
        ;
}

/* The one document that a plugin's failure must have on stdout (SPEC.md section 5). */
static int fail(const char *what, const char *whom, uint32_t closed)
{
    if (!(closed & 1u << STDOUT_FILENO)) {
        say(STDOUT_FILENO, "{\"cniVersion\": \"1.1.0\", \"code\": 999, \"msg\": \"", what, whom);
        say(STDOUT_FILENO, "\"}\n", "", "");
    }
    return 1;
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

/* Have the worker take back what it has done, and then die as the sender of the signal expects it. */
static int die_of(int connection, int signals)
{
    struct pollfd answer = {.fd = connection, .events = POLLIN};
    struct signalfd_siginfo arrived;
    int64_t deadline = now_ms() + UNDO_MS, left;
    unsigned char packet[] = {'T', 0};
    int32_t code;
    sigset_t set;

    if (read(signals, &arrived, sizeof(arrived)) != sizeof(arrived))
        return 1;
    packet[1] = (unsigned char)arrived.ssi_signo;
    send(connection, packet, sizeof(packet), MSG_DONTWAIT | MSG_NOSIGNAL);
    while ((left = deadline - now_ms()) > 0)
        if (poll(&answer, 1, (int)left) > 0 && next_word(connection, &code) != 'W')
            break;
    raise((int)arrived.ssi_signo);
    /* That one alone: another may have come meanwhile. */
    sigemptyset(&set);
    sigaddset(&set, (int)arrived.ssi_signo);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return 128 + (int)arrived.ssi_signo; /* the first process of a PID namespace survives itself */
}

/* Wait for an accepted request to end; return its exit code. */
static int outcome(int connection, int signals, uint32_t closed)
{
    struct pollfd events[] = {{.fd = connection, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    bool answers = false;
    int32_t code;

    for (;;) {
        if (poll(events, 2, -1) < 0)
            continue; /* EINTR, after a SIGSTOP and its SIGCONT */
        if (events[0].revents) {
            switch (next_word(connection, &code)) {
            case 'W':
                answers = true;
                break;
            case 'X':
                return code;
            default:
                return answers ? 1 : fail("the fork server's worker died while it ran the plugin", "", closed);
            }
        } else if (events[1].revents) {
            return die_of(connection, signals);
        }
    }
}

/* Become the plugin: the interpreter, with the program that finds it by this name. */
static int execute(const char *interpreter, const char *program, const char *name, char **environ_, uint32_t closed)
{
    const char *arguments[] = {interpreter, "-IS", "-c", program, name, NULL};

    execve(interpreter, (char *const *)arguments, environ_);
    if (errno == E2BIG)
        return fail("the environment is too large for executing ", interpreter, closed);
    return fail(errno == ENOENT ? "no such interpreter: " : "this does not execute: ", interpreter, closed);
}

int main(int argc, char **argv, char **environ_)
{
    const struct settings *settings = settings_at;
    const char *socket_path = settings->strings;
    const char *interpreter = socket_path + strlen(socket_path) + 1;
    const char *program = interpreter + strlen(interpreter) + 1;
    const char *name = plugin_name(argc > 0 ? argv[0] : NULL);
    uint32_t closed = closed_streams();
    int64_t deadline = now_ms() + settings->patience_ms;
    int connection, signals;
    sigset_t ending, before;

    if (!*interpreter) {
        say(STDERR_FILENO, name, ": `cni-harness install` makes plugins of this", "\n");
        return NOT_INSTALLED;
    }
    connection = connect_to(socket_path, settings->patience_ms);
    if (connection < 0)
        return execute(interpreter, program, name, environ_, closed);
    if (send_request(connection, name, closed, environ_) && is_ready(connection, deadline)) {
        /* From before the `G`, so that no signal is lost in between. */
        ending = ending_signals();
        sigprocmask(SIG_BLOCK, &ending, &before);
        signals = signalfd(-1, &ending, SFD_CLOEXEC);
        if (signals >= 0 && send_go(connection, closed))
            return outcome(connection, signals, closed);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    return execute(interpreter, program, name, environ_, closed);
}
