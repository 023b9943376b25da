/* A lock manager that grants all it is asked for, and a cluster called herd: the functions of libdlm_lt.so.3 and
 * libcmap.so.4 that mdadm looks up before it makes a clustered array. The real ones take a running cluster. */

struct status {
    int code;
    unsigned id;
    char flags;
    char *value;
};

enum { CMAP_OK = 1, UNLOCKED = 0x10002 };

static int space;
static void (*done)(void *);
static void *argument;

void *dlm_open_lockspace(const char *name) { return &space; }
void *dlm_create_lockspace(const char *name, unsigned mode) { return &space; }
int dlm_release_lockspace(const char *name, void *of, int force) { return 0; }
int dlm_ls_get_fd(void *of) { return -1; }

int dlm_ls_lock(void *of, unsigned mode, struct status *status, unsigned flags, const void *name, unsigned length,
                unsigned parent, void (*granted)(void *), void *with, void (*blocks)(void *), void *range) {
    done = granted;
    argument = with;
    status->code = 0;
    status->id = 1;
    return 0;
}

int dlm_ls_unlock_wait(void *of, unsigned id, unsigned flags, struct status *status) {
    status->code = UNLOCKED;
    return 0;
}

int dlm_dispatch(int fd) {
    done(argument);
    return 0;
}

int cmap_initialize(unsigned long *handle) { return CMAP_OK; }
int cmap_finalize(unsigned long handle) { return CMAP_OK; }

int cmap_get_string(unsigned long handle, const char *key, char **value) {
    *value = (char *)"herd";
    return CMAP_OK;
}
