/*
 * The little of a C library that launch/launcher.c needs, for 64-bit Linux on x86 and ARM; with it goes no other.
 *
 * glibc executes CPUID some fifty times at its start. On a virtual machine each one is an exit to the hypervisor: 0.3 ms
 * in all before main, three times as long as the rest of the launcher's start (docs/performance.md). For other
 * architectures setup.py links the launcher with the C library.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv, char **environ_);
void start(long *stack) __attribute__((noreturn, used));

#if defined(__x86_64__) && defined(__LP64__)

/* The kernel's entry: argc, argv and environment lie on the stack, which functions want aligned. */
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start\n");

static long kernel(long number, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

#elif defined(__aarch64__) && defined(__LP64__)

__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n\tbl start\n");

static long kernel(long number, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}

#else
#error "no system calls for this architecture"
#endif

/* Of a signal mask, in the kernel's own terms. */
#define MASK_BYTES 8

/* The kernel's struct sigaction, as far as SIG_IGN needs it. */
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

static int error_number;
static const unsigned long *auxiliary;

int *__errno_location(void)
{
    return &error_number;
}

static long checked(long result)
{
    if (result >= 0 || result < -4095)
        return result;
    error_number = (int)-result;
    return -1;
}

#define CALL(number, a, b, c, d, e) \
    checked(kernel(SYS_##number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e)))

void start(long *stack)
{
    int argc = (int)*stack;
    char **argv = (char **)(stack + 1), **environ_ = argv + argc + 1, **end = environ_;

    while (*end)
        end++;
    auxiliary = (const unsigned long *)(end + 1);
    for (int code = main(argc, argv, environ_);;)
        kernel(SYS_exit_group, code, 0, 0, 0, 0);
}

unsigned long getauxval(unsigned long type)
{
    for (const unsigned long *entry = auxiliary; entry[0] != AT_NULL; entry += 2)
        if (entry[0] == type)
            return entry[1];
    return 0;
}

int open(const char *path, int flags, ...)
{
    return (int)CALL(openat, AT_FDCWD, path, flags, 0, 0);
}

int close(int fd)
{
    return (int)CALL(close, fd, 0, 0, 0, 0);
}

ssize_t read(int fd, void *buffer, size_t size)
{
    return CALL(read, fd, buffer, size, 0, 0);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return CALL(writev, fd, parts, count, 0, 0);
}

int fcntl(int fd, int command, ...)
{
    return (int)CALL(fcntl, fd, command, 0, 0, 0);
}

mode_t umask(mode_t mask)
{
    return (mode_t)CALL(umask, mask, 0, 0, 0, 0);
}

uid_t geteuid(void)
{
    return (uid_t)CALL(geteuid, 0, 0, 0, 0, 0);
}

int execve(const char *path, char *const argv[], char *const environ_[])
{
    return (int)CALL(execve, path, argv, environ_, 0, 0);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    return (int)CALL(clock_gettime, clock, now, 0, 0, 0);
}

int poll(struct pollfd *fds, nfds_t count, int limit_ms)
{
    struct timespec limit = {.tv_sec = limit_ms / 1000, .tv_nsec = limit_ms % 1000 * 1000000L};

    return (int)CALL(ppoll, fds, count, limit_ms < 0 ? NULL : &limit, NULL, MASK_BYTES);
}

int socket(int domain, int type, int protocol)
{
    return (int)CALL(socket, domain, type, protocol, 0, 0);
}

int connect(int fd, const struct sockaddr *address, socklen_t size)
{
    return (int)CALL(connect, fd, address, size, 0, 0);
}

int getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
    return (int)CALL(getsockopt, fd, level, option, value, size);
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    return (int)CALL(setsockopt, fd, level, option, value, size);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    return CALL(sendmsg, fd, message, flags, 0, 0);
}

ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    return sendmsg(fd, &message, flags);
}

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    struct iovec part = {buffer, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    return CALL(recvmsg, fd, &message, flags, 0, 0);
}

int sigaction(int number, const struct sigaction *restrict action, struct sigaction *restrict before)
{
    struct kernel_action wanted = {.handler = action ? action->sa_handler : SIG_DFL}, old = {0};
    int done = (int)CALL(rt_sigaction, number, action ? &wanted : NULL, &old, MASK_BYTES, 0);

    if (before)
        before->sa_handler = old.handler;
    return done;
}

int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict before)
{
    return (int)CALL(rt_sigprocmask, how, set, before, MASK_BYTES, 0);
}

int sigemptyset(sigset_t *set)
{
    *set = (sigset_t){0};
    return 0;
}

int sigaddset(sigset_t *set, int number)
{
    *(unsigned long *)set |= 1UL << (number - 1);
    return 0;
}

int sigismember(const sigset_t *set, int number)
{
    return *(const unsigned long *)set >> (number - 1) & 1;
}

int signalfd(int fd, const sigset_t *set, int flags)
{
    return (int)CALL(signalfd4, fd, set, MASK_BYTES, flags, 0);
}

int eventfd(unsigned count, int flags)
{
    return (int)CALL(eventfd2, count, flags, 0, 0, 0);
}

int raise(int number)
{
    return (int)CALL(kill, kernel(SYS_getpid, 0, 0, 0, 0, 0), number, 0, 0, 0);
}

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memset(void *to, int byte, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((char *)to)[i] = (char)byte;
    return to;
}

int strcmp(const char *one, const char *other)
{
    while (*one && *one == *other) {
        one++;
        other++;
    }
    return (unsigned char)*one - (unsigned char)*other;
}

size_t strlen(const char *text)
{
    size_t size = 0;

    while (text[size])
        size++;
    return size;
}

char *strcpy(char *restrict to, const char *restrict from)
{
    memcpy(to, from, strlen(from) + 1);
    return to;
}

char *strrchr(const char *text, int wanted)
{
    const char *found = NULL;

    for (; *text; text++)
        if (*text == (char)wanted)
            found = text;
    return (char *)found;
}

size_t strspn(const char *text, const char *accepted)
{
    size_t size = 0;

    for (; text[size]; size++) {
        const char *one = accepted;

        while (*one && *one != text[size])
            one++;
        if (!*one)
            break;
    }
    return size;
}
