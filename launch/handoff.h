/* Having the server execute a plugin, as launch/server/protocol.py describes it. */
#ifndef CNI_HARNESS_HANDOFF_H
#define CNI_HARNESS_HANDOFF_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* stdin, stdout and stderr. */
    STREAMS = 3,
    BUILD_ID_BYTES = 16,
};

struct request {
    const unsigned char *build_id;
    /* The plugin's. */
    const char *name;
    char **environment;
    /* Stream N of those that are closed as bit N. */
    uint32_t closed;
};

enum service {
    /* No plugin was executed, and nothing here has changed. */
    UNSERVED,
    /* It was executed, and its answer written: there is an exit code. */
    SERVED,
    /* It may have been, and has nothing on its stdout. */
    ABANDONED,
};

/* Ask the server at a path (empty: none), wait so long for a worker to take the call, and write its answer. */
enum service have_served(const char *socket_path, uint32_t timeout_ms, const struct request *request, int *code);

#endif
