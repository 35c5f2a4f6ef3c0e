/*
 * The least that an ADD and a DEL can do: a bridge plugin with its addresses given out, without JSON, checks and care.
 *
 * ADD: a file made exclusively reserves an address; one RTM_NEWLINK makes the veth pair, its peer in the pod, its host
 * end at the bridge and up; one send more brings the pod's end up and gives it address and default route. DEL: one
 * RTM_DELLINK, and the file goes. Whatever goes wrong ends it with exit code 1. It knows only the network of tools/bench.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BRIDGE "bench0"
#define FOLDER "/var/lib/cni/networks/bench"
#define SUBNET 0x0a500000u /* 10.80.0.0/16 */
#define GATEWAY (SUBNET | 1)

enum {
    PREFIX_LENGTH = 16,
    HOSTS = 65000,
};

struct batch {
    size_t length;
    int messages;
    _Alignas(NLMSG_ALIGNTO) char bytes[2048];
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void *put(struct batch *batch, const void *bytes, size_t length)
{
    char *at = batch->bytes + batch->length;

    memcpy(at, bytes, length);
    batch->length += NLMSG_ALIGN(length);
    return at;
}

static struct nlmsghdr *message(struct batch *batch, int type, int flags, const void *body, size_t length)
{
    struct nlmsghdr header = {.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags};
    struct nlmsghdr *at = put(batch, &header, sizeof header);

    put(batch, body, length);
    batch->messages++;
    return at;
}

static void message_end(struct batch *batch, struct nlmsghdr *header)
{
    header->nlmsg_len = batch->bytes + batch->length - (char *)header;
}

static struct rtattr *attribute(struct batch *batch, int type, const void *bytes, size_t length)
{
    struct rtattr header = {.rta_type = type, .rta_len = RTA_LENGTH(length)};
    struct rtattr *at = put(batch, &header, sizeof header);

    if (length)
        put(batch, bytes, length);
    return at;
}

static void attribute_end(struct batch *batch, struct rtattr *header)
{
    header->rta_len = batch->bytes + batch->length - (char *)header;
}

static void number(struct batch *batch, int type, uint32_t value)
{
    attribute(batch, type, &value, sizeof value);
}

static void text(struct batch *batch, int type, const char *value)
{
    attribute(batch, type, value, strlen(value) + 1);
}

/* Send all messages at once and read all answers; an error is fatal unless it is `accepted`. */
static void talk(struct batch *batch, int accepted)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (fd < 0 || send(fd, batch->bytes, batch->length, 0) < 0)
        fail("rtnetlink");
    while (batch->messages > 0) {
        _Alignas(NLMSG_ALIGNTO) char answers[4096];
        ssize_t length = recv(fd, answers, sizeof answers, 0);

        if (length < 0)
            fail("rtnetlink");
        for (struct nlmsghdr *at = (void *)answers; NLMSG_OK(at, (size_t)length); at = NLMSG_NEXT(at, length)) {
            errno = -((struct nlmsgerr *)NLMSG_DATA(at))->error;
            if (errno && errno != accepted)
                fail("rtnetlink");
            batch->messages--;
        }
    }
    close(fd);
}

static void add_address(struct batch *batch, unsigned ifindex, uint32_t address)
{
    struct ifaddrmsg body = {.ifa_family = AF_INET, .ifa_prefixlen = PREFIX_LENGTH, .ifa_index = ifindex};
    struct nlmsghdr *at = message(batch, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &body, sizeof body);

    number(batch, IFA_LOCAL, htonl(address));
    number(batch, IFA_ADDRESS, htonl(address));
    message_end(batch, at);
}

static void add_default_route(struct batch *batch, unsigned ifindex)
{
    struct rtmsg body = {
        .rtm_family = AF_INET, .rtm_table = RT_TABLE_MAIN, .rtm_protocol = RTPROT_BOOT, .rtm_type = RTN_UNICAST};
    struct nlmsghdr *at = message(batch, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &body, sizeof body);

    number(batch, RTA_GATEWAY, htonl(GATEWAY));
    number(batch, RTA_OIF, ifindex);
    message_end(batch, at);
}

static unsigned bridge(void)
{
    unsigned ifindex = if_nametoindex(BRIDGE);
    struct ifinfomsg up = {.ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    struct batch link = {0}, address = {0};

    if (ifindex)
        return ifindex;
    struct nlmsghdr *at = message(&link, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &up, sizeof up);
    text(&link, IFLA_IFNAME, BRIDGE);
    struct rtattr *info = attribute(&link, IFLA_LINKINFO, NULL, 0);
    text(&link, IFLA_INFO_KIND, "bridge");
    attribute_end(&link, info);
    message_end(&link, at);
    talk(&link, EEXIST);
    ifindex = if_nametoindex(BRIDGE);
    add_address(&address, ifindex, GATEWAY);
    talk(&address, EEXIST);
    return ifindex;
}

static void add_pair(const char *host_name, const char *pod_name, int netns)
{
    struct ifinfomsg host = {.ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    struct ifinfomsg pod = {0}; /* up, it would look for the host end, which is not there yet */
    struct batch batch = {0};
    unsigned master = bridge();

    struct nlmsghdr *at = message(&batch, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &host, sizeof host);
    text(&batch, IFLA_IFNAME, host_name);
    number(&batch, IFLA_MASTER, master);
    struct rtattr *info = attribute(&batch, IFLA_LINKINFO, NULL, 0);
    text(&batch, IFLA_INFO_KIND, "veth");
    struct rtattr *settings = attribute(&batch, IFLA_INFO_DATA, NULL, 0);
    struct rtattr *peer = attribute(&batch, VETH_INFO_PEER, NULL, 0);
    put(&batch, &pod, sizeof pod);
    text(&batch, IFLA_IFNAME, pod_name);
    number(&batch, IFLA_NET_NS_FD, netns);
    attribute_end(&batch, peer);
    attribute_end(&batch, settings);
    attribute_end(&batch, info);
    message_end(&batch, at);
    talk(&batch, 0);
}

static void set_up(struct batch *batch, unsigned ifindex)
{
    struct ifinfomsg body = {.ifi_index = ifindex, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};

    message_end(batch, message(batch, RTM_NEWLINK, 0, &body, sizeof body));
}

static uint32_t first_host(const char *container_id)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (; *container_id; container_id++)
        hash = (hash ^ (unsigned char)*container_id) * 16777619u;
    return hash % HOSTS;
}

static void path_of(char *path, size_t size, uint32_t address)
{
    struct in_addr binary = {htonl(address)};

    snprintf(path, size, FOLDER "/%s", inet_ntoa(binary));
}

static uint32_t reserve(const char *container_id, const char *ifname)
{
    for (uint32_t tried = 0; tried < HOSTS; tried++) {
        uint32_t address = SUBNET + 2 + (first_host(container_id) + tried) % HOSTS;
        char path[128];

        path_of(path, sizeof path, address);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd >= 0) {
            dprintf(fd, "%s\r\n%s", container_id, ifname);
            close(fd);
            return address;
        }
        if (errno == ENOENT) {
            mkdir("/var/lib/cni/networks", 0755);
            if (mkdir(FOLDER, 0755) && errno != EEXIST)
                fail(FOLDER);
            tried--;
        } else if (errno != EEXIST) {
            fail(path);
        }
    }
    errno = ENOSPC;
    fail(FOLDER);
    return 0;
}

static void release(const char *container_id)
{
    size_t length = strlen(container_id);

    for (uint32_t tried = 0; tried < HOSTS; tried++) {
        char path[128], owner[256];

        path_of(path, sizeof path, SUBNET + 2 + (first_host(container_id) + tried) % HOSTS);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return;
        ssize_t count = read(fd, owner, sizeof owner);
        close(fd);
        if (count > (ssize_t)length && !memcmp(owner, container_id, length)) {
            unlink(path);
            return;
        }
    }
}

static void add(const char *host_name, const char *container_id, const char *ifname, const char *netns_path)
{
    struct batch batch = {0};
    int netns = open(netns_path, O_RDONLY | O_CLOEXEC);

    if (netns < 0)
        fail(netns_path);
    uint32_t address = reserve(container_id, ifname);
    add_pair(host_name, ifname, netns);
    if (setns(netns, CLONE_NEWNET))
        fail("setns");
    unsigned ifindex = if_nametoindex(ifname);
    set_up(&batch, ifindex);
    add_address(&batch, ifindex, address);
    add_default_route(&batch, ifindex);
    talk(&batch, 0);
    printf("{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"%s/%d\"}]}\n",
           inet_ntoa((struct in_addr){htonl(address)}), PREFIX_LENGTH);
}

static void delete(const char *host_name, const char *container_id)
{
    struct ifinfomsg body = {0};
    struct batch batch = {0};
    struct nlmsghdr *at = message(&batch, RTM_DELLINK, 0, &body, sizeof body);

    text(&batch, IFLA_IFNAME, host_name);
    message_end(&batch, at);
    talk(&batch, ENODEV);
    release(container_id);
}

int main(void)
{
    const char *verb = getenv("CNI_COMMAND"), *container_id = getenv("CNI_CONTAINERID");
    const char *ifname = getenv("CNI_IFNAME"), *netns = getenv("CNI_NETNS");
    char host_name[IFNAMSIZ];

    if (!verb || !container_id || !ifname || !netns)
        return 1;
    snprintf(host_name, sizeof host_name, "fl%.12s", container_id);
    if (!strcmp(verb, "ADD"))
        add(host_name, container_id, ifname, netns);
    else if (!strcmp(verb, "DEL"))
        delete(host_name, container_id);
    else
        return 1;
    return 0;
}
