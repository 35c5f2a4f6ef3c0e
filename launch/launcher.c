/*
 * The executable behind every plugin's name: it has the server run the plugin, and becomes the plugin itself
 * if no server runs.
 *
 * As long as no worker has taken the call, whatever goes wrong leads to direct execution, in circumstances that nothing
 * here has changed; after it, never.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <unistd.h>

#include "handoff.h"

#define MARKER "cni-harness launcher 1\n"

enum {
    /* Exit code of a launcher that launch.launcher has not filled in. */
    NOT_INSTALLED = 121,
    /* Arguments for a plugin's daemon; there are fewer flags. */
    ARGUMENTS = 32,
};

/* Filled in by launch.launcher, in the bytes of a copy of the file; the strings are ended by NUL each. */
struct settings {
    char marker[24];
    unsigned char build_id[BUILD_ID_BYTES];
    uint32_t timeout_ms;
    /* The path of the server's socket (empty: ask none), the interpreter, the program that it is to run. */
    char strings[4092];
};

static const struct settings patched = {.marker = MARKER};

/* By a pointer that the compiler must read: it would otherwise reckon with what `patched` holds at build time. */
static const struct settings *const volatile settings_at = &patched;

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

/* Those of stdin, stdout and stderr that are closed; to be asked before anything is opened in their places. */
static uint32_t closed_streams(void)
{
    uint32_t closed = 0;

    for (int stream = 0; stream < STREAMS; stream++)
        if (fcntl(stream, F_GETFD) < 0)
            closed |= 1u << stream;
    return closed;
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
static int fail_with(const char *code, const char *what, const char *whom, uint32_t closed)
{
    if (!(closed & 1u << STDOUT_FILENO)) {
        say(STDOUT_FILENO, "{\"cniVersion\": \"1.1.0\", \"code\": ", code, ", \"msg\": \"");
        say(STDOUT_FILENO, what, whom, "");
        say(STDOUT_FILENO, "\"}\n", "", "");
    }
    return 1;
}

static int fail(const char *what, const char *whom, uint32_t closed)
{
    return fail_with("999", what, whom, closed);
}

/* Without a free descriptor the interpreter loads no library, and ends without a document. */
static bool has_no_descriptor(void)
{
    int descriptor = open("/", O_PATH | O_CLOEXEC);

    if (descriptor < 0)
        return errno == EMFILE || errno == ENFILE;
    close(descriptor);
    return false;
}

/* Runtimes give no arguments: only `NAME daemon` has some, which runs a plugin's daemon. */
static int is_daemon(int argc, char **argv)
{
    return argc > 1 && !strcmp(argv[1], "daemon");
}

/* Become the plugin: the interpreter, with the program that finds it by this name; `given` are its arguments, or NULL. */
static int execute(const char *interpreter, const char *program, const char *name, char **given, char **environ_,
                   uint32_t closed)
{
    const char *arguments[ARGUMENTS + 6] = {interpreter, "-IS", "-c", program, name};

    if (has_no_descriptor())
        return fail_with("5", "the plugin cannot start: ", "Too many open files", closed);
    for (int number = 0; given && given[number] && number < ARGUMENTS; number++)
        arguments[5 + number] = given[number];
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
    const struct request request = {
        .build_id = settings->build_id,
        .name = plugin_name(argc > 0 ? argv[0] : NULL),
        .environment = environ_,
        .closed = closed_streams(),
    };
    int code;

    if (!*interpreter) {
        say(STDERR_FILENO, request.name, ": `cni-harness install` makes plugins of this", "\n");
        return NOT_INSTALLED;
    }
    if (is_daemon(argc, argv))
        return execute(interpreter, program, request.name, argv + 1, environ_, request.closed);
    switch (have_served(socket_path, settings->timeout_ms, &request, &code)) {
    case SERVED:
        return code;
    case ABANDONED:
        return fail("the server's worker died while it ran the plugin", "", request.closed);
    case UNSERVED:
        break;
    }
    return execute(interpreter, program, request.name, NULL, environ_, request.closed);
}
