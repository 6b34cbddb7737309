/* A stand-in for libnvidia-ml.so.1: the functions that pynvml calls for what this project uses, over cards that live in
 * one file shared between processes. standin.py writes that file and mirrors its layout; sizes are checked at build.
 *
 * Every call goes through enter(): initialised in this process (not in a fork's parent), counted, delayed or failed as
 * the fault table says. Locks are flocks on a descriptor of their own, so that a killed process never leaves one held.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GPUS = 16, MAX_PROCESSES = 32, MAX_MIG = 8, MAX_FAULTS = 64, MAX_FUNCTIONS = 96, MAX_WRITES = 16384 };
enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9
};
enum { ALWAYS = -1, UNTIL_INIT = -2 };
enum { FIELD_ENERGY = 83, FIELD_POWER_AVERAGE = 185, FIELD_POWER_INSTANT = 186 };
enum { VALUE_UNSIGNED_INT = 1, VALUE_UNSIGNED_LONG_LONG = 3 };
enum { IDLE_REASON = 0x1, POWER_CAP_REASON = 0x4 };

typedef struct {
    char uuid[96], name[96];
    uint32_t pci_domain, pci_bus, pci_device, architecture;
    uint32_t min_mw, max_mw, default_mw, limit_mw;
    uint32_t oob_cap_mw;               /* 0: none; else a limit from outside the driver */
    uint32_t demand_mw, idle_mw;       /* what the load would draw with no limit, and nothing at all */
    uint32_t has_energy, has_instant, has_average, has_module;
    uint32_t module_mw;
    uint32_t min_sm_mhz, max_sm_mhz, sm_step_mhz, memory_mhz, locked_min_mhz, locked_max_mhz;
    int32_t utilisation;               /* per cent; -1: follows the load */
    uint32_t persistence, mig_supported, mig_mode, mig_count;
    uint64_t extra_reasons;
    double energy_mj;
    int64_t energy_at_ns;
    int64_t energy_step_ns;            /* how rarely the counter moves; 0: always */
    double shown_mj;
    int64_t shown_at_ns;
    char mig_uuid[MAX_MIG][96];
    uint32_t process_count, pid[MAX_PROCESSES], graphics[MAX_PROCESSES];
} Card;

typedef struct {
    char function[56];                 /* "*": every function; "field:186:0": one field value of one scope */
    int32_t active, gpu, code, count;
    int32_t hang;                      /* milliseconds; -1: until the fault is cleared */
    int32_t has_value;
    uint64_t value;
} Fault;

typedef struct {
    char function[56];
    uint64_t calls[MAX_GPUS + 1];      /* the last is for calls on no GPU */
} Counter;

typedef struct {
    int64_t at_ns;
    uint32_t pid, uid, gpu, value, value2;
    int32_t code;
    char function[40];
} Write;

typedef struct {
    uint64_t magic;
    uint32_t gpu_count;
    int32_t root_uid;                  /* who may write; -1: everybody */
    char driver_version[80];
    Card card[MAX_GPUS];
    Fault fault[MAX_FAULTS];
    Counter counter[MAX_FUNCTIONS];
    uint64_t write_count;
    Write write[MAX_WRITES];
} State;

typedef struct { int gpu, mig; } Handle;

static State *state;
static char state_path[4096];
static pid_t owner;
static int references;
static Handle handles[MAX_GPUS][MAX_MIG + 1];

uint64_t standin_sizeof(void) { return sizeof(State); }

/* For tests: whatever was left initialised is not, and the next nvmlInit looks for its cards anew. */
void standin_forget(void) { references = 0; }

/* ------------------------------------------------------------------ the shared file */

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int lock(void) {
    int fd = open(state_path, O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        while (flock(fd, LOCK_EX) != 0 && errno == EINTR) { }
    return fd;
}

static void unlock(int fd) {
    if (fd >= 0) close(fd);
}

static int open_state(void) {
    const char *path = getenv("CHASE_STANDIN_NVML_STATE");
    if (!path || strlen(path) >= sizeof state_path) return DRIVER_NOT_LOADED;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return errno == EACCES ? NO_PERMISSION : DRIVER_NOT_LOADED;
    void *map = mmap(NULL, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) return DRIVER_NOT_LOADED;
    strcpy(state_path, path);
    state = map; /* the map before stays: a call that hangs may still look at it */
    return OK;
}

static Counter *counter_of(const char *function) {
    for (int i = 0; i < MAX_FUNCTIONS; i++) {
        Counter *c = &state->counter[i];
        if (!c->function[0]) strncpy(c->function, function, sizeof c->function - 1);
        if (!strcmp(c->function, function)) return c;
    }
    return &state->counter[MAX_FUNCTIONS - 1];
}

static Fault *fault_of(const char *function, int gpu) {
    for (int i = 0; i < MAX_FAULTS; i++) {
        Fault *f = &state->fault[i];
        if (f->active && (f->gpu < 0 || f->gpu == gpu) && f->count != 0
            && (!strcmp(f->function, function) || !strcmp(f->function, "*")))
            return f;
    }
    return NULL;
}

/* What the fault table says of this call: a code, and perhaps a value to answer with. */
static int faulted(const char *function, int gpu, uint64_t *value, int *has_value) {
    int fd = lock();
    State *mine = state;
    Fault *f = fault_of(function, gpu);
    int code = f ? f->code : OK, hang = f ? f->hang : 0;
    if (f && f->has_value && value) {
        *value = f->value;
        *has_value = 1;
    }
    if (f && f->count > 0) f->count--;
    counter_of(function)->calls[gpu < 0 ? MAX_GPUS : gpu]++;
    unlock(fd);
    if (hang > 0) usleep((useconds_t)hang * 1000);
    while (hang < 0 && f->active && state == mine) usleep(5000);
    return code;
}

static int enter(const char *function, int gpu, uint64_t *value, int *has_value) {
    if (!references || owner != getpid()) return UNINITIALIZED;
    return faulted(function, gpu, value, has_value);
}

static int valid(const Handle *h) {
    return h >= &handles[0][0] && h <= &handles[MAX_GPUS - 1][MAX_MIG];
}

/* The start of every call on a device. Power, clocks and the like are not answered for a slice of one (MIG). */
#define ON_DEVICE(h) \
    uint64_t value = 0; \
    int has_value = 0; \
    if (!valid(h)) return references ? INVALID_ARGUMENT : UNINITIALIZED; \
    int code = enter(__func__, (h)->gpu, &value, &has_value); \
    if (code != OK) return code; \
    Card *card = &state->card[(h)->gpu]; \
    (void)card; (void)value; (void)has_value

#define ON_WHOLE_DEVICE(h) \
    ON_DEVICE(h); \
    if ((h)->mig >= 0) return NOT_SUPPORTED

#define ON_NODE() \
    int code = enter(__func__, -1, NULL, NULL); \
    if (code != OK) return code

/* ------------------------------------------------------------------ physics */

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t enforced_mw(const Card *c) {
    uint32_t limit = least(c->limit_mw, c->max_mw);
    return c->oob_cap_mw ? least(limit, c->oob_cap_mw) : limit;
}

static double wanted_mw(const Card *c) {
    double share = c->locked_max_mhz ? (double)c->locked_max_mhz / c->max_sm_mhz : 1.0;
    return c->demand_mw <= c->idle_mw ? c->idle_mw : c->idle_mw + (c->demand_mw - c->idle_mw) * share;
}

static double draw_mw(const Card *c) {
    double wanted = wanted_mw(c), cap = enforced_mw(c);
    return wanted < cap ? wanted : cap;
}

static uint32_t sm_mhz(const Card *c) {
    if (c->demand_mw <= c->idle_mw) return c->min_sm_mhz;
    double top = c->locked_max_mhz ? c->locked_max_mhz : c->max_sm_mhz;
    return (uint32_t)(top * cbrt(draw_mw(c) / wanted_mw(c)));
}

/* Exported for standin.py, which integrates before it changes anything that the draw depends on. */
void standin_integrate(State *s) {
    int64_t now = now_ns();
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        Card *c = &s->card[i];
        c->energy_mj += draw_mw(c) * (double)(now - c->energy_at_ns) / 1e9;
        c->energy_at_ns = now;
        if (now - c->shown_at_ns >= c->energy_step_ns) {
            c->shown_mj = c->energy_mj;
            c->shown_at_ns = now;
        }
    }
}

/* Every change by a client: the right one, with sane arguments, or none; logged either way. */
static int change(const char *function, const Handle *h, int argument_ok, uint32_t a, uint32_t b, uint32_t *first,
                  uint32_t *second) {
    int code = argument_ok ? OK : INVALID_ARGUMENT;
    if (state->root_uid >= 0 && (int32_t)geteuid() != state->root_uid) code = NO_PERMISSION;
    int fd = lock();
    if (code == OK) {
        standin_integrate(state);
        if (first) *first = a;
        if (second) *second = b;
    }
    Write *w = &state->write[state->write_count % MAX_WRITES];
    *w = (Write){now_ns(), (uint32_t)getpid(), (uint32_t)geteuid(), (uint32_t)h->gpu, a, b, code, {0}};
    strncpy(w->function, function, sizeof w->function - 1);
    state->write_count++;
    unlock(fd);
    return code;
}

/* ------------------------------------------------------------------ library and system */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (owner != getpid()) references = 0;
    if (!references) {
        int code = open_state();
        if (code != OK) return code;
        for (int g = 0; g < MAX_GPUS; g++)
            for (int m = 0; m <= MAX_MIG; m++) handles[g][m] = (Handle){g, m - 1};
    }
    int fd = lock();
    for (int i = 0; i < MAX_FAULTS; i++)
        if (state->fault[i].count == UNTIL_INIT) state->fault[i].active = 0;
    unlock(fd);
    int code = faulted(__func__, -1, NULL, NULL);
    if (code != OK) return code;
    owner = getpid();
    references++;
    return OK;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    ON_NODE();
    if (references > 0) references--;
    return OK;
}

const char *nvmlErrorString(int code) {
    static __thread char text[48];
    snprintf(text, sizeof text, "stand-in error %d", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    ON_NODE();
    snprintf(text, length, "%s", state->driver_version);
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    ON_NODE();
    *count = state->gpu_count;
    return OK;
}

/* ------------------------------------------------------------------ handles and identity */

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **h) {
    if (references && index >= state->gpu_count) return INVALID_ARGUMENT;
    int code = enter(__func__, (int)index, NULL, NULL);
    if (code == OK) *h = &handles[index][0];
    return code;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Handle **h) {
    int found = -1, slice = 0;
    for (uint32_t g = 0; references && g < state->gpu_count; g++) {
        Card *c = &state->card[g];
        if (!strcmp(c->uuid, uuid)) found = (int)g;
        for (uint32_t m = 0; m < c->mig_count; m++)
            if (!strcmp(c->mig_uuid[m], uuid)) found = (int)g, slice = (int)m + 1;
    }
    int code = enter(__func__, found, NULL, NULL);
    if (code != OK) return code;
    if (found < 0) return NOT_FOUND;
    *h = &handles[found][slice];
    return OK;
}

static void bus_id(const Card *c, char *text, size_t size) {
    snprintf(text, size, "%08X:%02X:%02X.0", c->pci_domain & 0xffffffffu, c->pci_bus & 0xffu, c->pci_device & 0xffu);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, Handle **h) {
    int found = -1;
    char text[32];
    for (uint32_t g = 0; references && g < state->gpu_count; g++) {
        bus_id(&state->card[g], text, sizeof text);
        if (!strcasecmp(text, id)) found = (int)g;
    }
    int code = enter(__func__, found, NULL, NULL);
    if (code != OK) return code;
    if (found < 0) return NOT_FOUND;
    *h = &handles[found][0];
    return OK;
}

int nvmlDeviceGetIndex(const Handle *h, unsigned *index) {
    ON_DEVICE(h);
    *index = (unsigned)h->gpu;
    return OK;
}

int nvmlDeviceGetUUID(const Handle *h, char *text, unsigned length) {
    ON_DEVICE(h);
    snprintf(text, length, "%s", h->mig < 0 ? card->uuid : card->mig_uuid[h->mig]);
    return OK;
}

int nvmlDeviceGetName(const Handle *h, char *text, unsigned length) {
    ON_DEVICE(h);
    snprintf(text, length, "%s", card->name);
    return OK;
}

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} Pci;

int nvmlDeviceGetPciInfo_v3(const Handle *h, Pci *pci) {
    ON_WHOLE_DEVICE(h);
    memset(pci, 0, sizeof *pci);
    pci->domain = card->pci_domain, pci->bus = card->pci_bus, pci->device = card->pci_device;
    pci->device_id = 0x223510DEu;
    bus_id(card, pci->bus_id, sizeof pci->bus_id);
    snprintf(pci->legacy, sizeof pci->legacy, "%04X:%02X:%02X.0", pci->domain & 0xffffu, pci->bus & 0xffu, pci->device & 0xffu);
    return OK;
}

#define GET_UINT(name, expression) \
    int name(const Handle *h, unsigned *out) { \
        ON_WHOLE_DEVICE(h); \
        *out = has_value ? (unsigned)value : (unsigned)(expression); \
        return OK; \
    }

GET_UINT(nvmlDeviceGetArchitecture, card->architecture)
GET_UINT(nvmlDeviceGetPersistenceMode, card->persistence)

/* ------------------------------------------------------------------ power and energy */

GET_UINT(nvmlDeviceGetPowerManagementLimit, card->limit_mw)
GET_UINT(nvmlDeviceGetPowerManagementDefaultLimit, card->default_mw)
GET_UINT(nvmlDeviceGetEnforcedPowerLimit, enforced_mw(card))
GET_UINT(nvmlDeviceGetPowerUsage, draw_mw(card))

int nvmlDeviceGetPowerManagementLimitConstraints(const Handle *h, unsigned *low, unsigned *high) {
    ON_WHOLE_DEVICE(h);
    *low = card->min_mw;
    *high = has_value ? (unsigned)value : card->max_mw;
    return OK;
}

int nvmlDeviceSetPowerManagementLimit(const Handle *h, unsigned mw) {
    ON_WHOLE_DEVICE(h);
    return change(__func__, h, mw >= card->min_mw && mw <= card->max_mw, mw, 0, &card->limit_mw, NULL);
}

static double counter_mj(Card *card) {
    int fd = lock();
    standin_integrate(state);
    double mj = card->shown_mj;
    unlock(fd);
    return mj;
}

int nvmlDeviceGetTotalEnergyConsumption(const Handle *h, unsigned long long *mj) {
    ON_WHOLE_DEVICE(h);
    if (!card->has_energy) return NOT_SUPPORTED;
    *mj = has_value ? value : (unsigned long long)counter_mj(card);
    return OK;
}

typedef struct {
    uint32_t field, scope;
    int64_t timestamp, latency;
    uint32_t type, code;
    union { double d; unsigned u; unsigned long long ull; } value;
} FieldValue;

static void answer_field(Card *card, int gpu, FieldValue *f) {
    char name[56];
    uint64_t value = 0;
    int has_value = 0;
    snprintf(name, sizeof name, "field:%u:%u", f->field, f->scope);
    f->timestamp = now_ns() / 1000;
    f->code = (uint32_t)faulted(name, gpu, &value, &has_value);
    if (f->code != OK) return;
    int power = f->field == FIELD_POWER_INSTANT || f->field == FIELD_POWER_AVERAGE;
    int here = (f->field == FIELD_POWER_INSTANT && card->has_instant) || (f->field == FIELD_POWER_AVERAGE && card->has_average);
    if (power && here && (f->scope == 0 || (f->scope == 1 && card->has_module))) {
        f->type = VALUE_UNSIGNED_INT;
        f->value.u = has_value ? (unsigned)value : f->scope ? card->module_mw : (unsigned)draw_mw(card);
    } else if (f->field == FIELD_ENERGY && card->has_energy) {
        f->type = VALUE_UNSIGNED_LONG_LONG;
        f->value.ull = has_value ? value : (unsigned long long)counter_mj(card);
    } else {
        f->code = NOT_SUPPORTED;
    }
}

int nvmlDeviceGetFieldValues(const Handle *h, int count, FieldValue *fields) {
    ON_WHOLE_DEVICE(h);
    for (int i = 0; i < count; i++) answer_field(card, h->gpu, &fields[i]);
    return OK;
}

/* ------------------------------------------------------------------ clocks, load, reasons */

enum { CLOCK_GRAPHICS = 0, CLOCK_SM = 1, CLOCK_MEMORY = 2 };

int nvmlDeviceGetClockInfo(const Handle *h, unsigned type, unsigned *mhz) {
    ON_WHOLE_DEVICE(h);
    *mhz = has_value ? (unsigned)value : type == CLOCK_MEMORY ? card->memory_mhz : sm_mhz(card);
    return OK;
}

int nvmlDeviceGetMaxClockInfo(const Handle *h, unsigned type, unsigned *mhz) {
    ON_WHOLE_DEVICE(h);
    *mhz = type == CLOCK_MEMORY ? card->memory_mhz : card->max_sm_mhz;
    return OK;
}

int nvmlDeviceGetSupportedMemoryClocks(const Handle *h, unsigned *count, unsigned *mhz) {
    ON_WHOLE_DEVICE(h);
    unsigned room = *count;
    *count = 1;
    if (!mhz || room < 1) return INSUFFICIENT_SIZE;
    mhz[0] = card->memory_mhz;
    return OK;
}

int nvmlDeviceGetSupportedGraphicsClocks(const Handle *h, unsigned memory, unsigned *count, unsigned *mhz) {
    ON_WHOLE_DEVICE(h);
    if (memory != card->memory_mhz) return NOT_FOUND;
    unsigned room = *count, n = (card->max_sm_mhz - card->min_sm_mhz) / card->sm_step_mhz + 1;
    *count = n;
    if (!mhz || room < n) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < n; i++) mhz[i] = card->max_sm_mhz - i * card->sm_step_mhz;
    return OK;
}

int nvmlDeviceSetGpuLockedClocks(const Handle *h, unsigned low, unsigned high) {
    ON_WHOLE_DEVICE(h);
    return change(__func__, h, low <= high && high > 0, low, high, &card->locked_min_mhz, &card->locked_max_mhz);
}

int nvmlDeviceResetGpuLockedClocks(const Handle *h) {
    ON_WHOLE_DEVICE(h);
    return change(__func__, h, 1, 0, 0, &card->locked_min_mhz, &card->locked_max_mhz);
}

int nvmlDeviceSetPersistenceMode(const Handle *h, unsigned mode) {
    ON_WHOLE_DEVICE(h);
    return change(__func__, h, mode <= 1, mode, 0, &card->persistence, NULL);
}

typedef struct { unsigned gpu, memory; } Utilisation;

int nvmlDeviceGetUtilizationRates(const Handle *h, Utilisation *u) {
    ON_WHOLE_DEVICE(h);
    if (card->mig_mode) return NOT_SUPPORTED;
    u->gpu = has_value ? (unsigned)value
             : card->utilisation >= 0 ? (unsigned)card->utilisation : card->demand_mw > card->idle_mw ? 100u : 0u;
    u->memory = u->gpu / 2;
    return OK;
}

static unsigned long long reasons(const Card *c) {
    unsigned long long bits = c->extra_reasons;
    if (c->demand_mw <= c->idle_mw) bits |= IDLE_REASON;
    if (wanted_mw(c) > enforced_mw(c)) bits |= POWER_CAP_REASON;
    return bits;
}

int nvmlDeviceGetCurrentClocksEventReasons(const Handle *h, unsigned long long *bits) {
    ON_WHOLE_DEVICE(h);
    *bits = reasons(card);
    return OK;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(const Handle *h, unsigned long long *bits) {
    ON_WHOLE_DEVICE(h);
    *bits = reasons(card);
    return OK;
}

/* ------------------------------------------------------------------ processes */

typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
} Process;

static int list_processes(const Card *card, unsigned graphics, unsigned *count, Process *out) {
    unsigned room = *count, n = 0;
    for (uint32_t i = 0; i < card->process_count; i++) {
        if (card->graphics[i] != graphics) continue;
        if (out && n < room) out[n] = (Process){card->pid[i], 1ull << 30, 0xffffffffu, 0xffffffffu};
        n++;
    }
    *count = n;
    return n > room || (n && !out) ? INSUFFICIENT_SIZE : OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(const Handle *h, unsigned *count, Process *out) {
    ON_WHOLE_DEVICE(h);
    return list_processes(card, 0, count, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(const Handle *h, unsigned *count, Process *out) {
    ON_WHOLE_DEVICE(h);
    return list_processes(card, 1, count, out);
}

/* ------------------------------------------------------------------ MIG */

int nvmlDeviceGetMigMode(const Handle *h, unsigned *current, unsigned *pending) {
    ON_WHOLE_DEVICE(h);
    if (!card->mig_supported) return NOT_SUPPORTED;
    *current = *pending = card->mig_mode;
    return OK;
}

int nvmlDeviceIsMigDeviceHandle(const Handle *h, unsigned *is_mig) {
    ON_DEVICE(h);
    *is_mig = h->mig >= 0;
    return OK;
}

GET_UINT(nvmlDeviceGetMaxMigDeviceCount, card->mig_supported ? 7 : 0)

int nvmlDeviceGetMigDeviceHandleByIndex(const Handle *h, unsigned index, Handle **out) {
    ON_WHOLE_DEVICE(h);
    if (!card->mig_supported) return NOT_SUPPORTED;
    if (index >= 7) return INVALID_ARGUMENT;
    if (index >= card->mig_count) return NOT_FOUND;
    *out = &handles[h->gpu][index + 1];
    return OK;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(const Handle *h, Handle **out) {
    ON_DEVICE(h);
    if (h->mig < 0) return INVALID_ARGUMENT;
    *out = &handles[h->gpu][0];
    return OK;
}
