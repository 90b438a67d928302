/* A libnvidia-ml.so.1 for practice pods: NVML's C ABI over plain files, so that the real pynvml is exercised.
 *
 * The state is a directory, `gpu` beside the directory of this library (found through dladdr):
 *   driver          "key value" lines: version, init_error, offset, and any number of "map LOCAL REPORTED"
 *   devices/N       "key value" lines, see board.py
 *   holders/G-P-T-B a process P, started at T ticks, holds B bytes of GPU G; the content is "UNTIL PERCENT": until which monotonic
 *                   millisecond it computes, and how hard
 * An entry counts only while /proc/P/stat shows those start ticks and no zombie: memory ends with its holder and not otherwise.
 * Everything is read again when it is older than 50 ms; 8 GPUs with 16 holders take 0.4 ms. Structures and values follow nvml.h 13. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9, TIMEOUT = 10, ARGUMENT_VERSION_MISMATCH = 25 };
enum { MAX_GPUS = 16, MAX_PROCS = 64, MAX_MAP = 64, REFRESH_MS = 50, WINDOW_MS = 1000, LINKS = 18 };

typedef int Return;
typedef struct { uint32_t pid; uint64_t memory; } Holder;
typedef struct {
    char name[96], uuid[80];
    uint64_t total, reserved, used, throttle, ecc;
    int util, temp, power, power_limit, sm_clock, mem_clock, error, hang_ms, xid, xid_seq;
    int pcie_gen, pcie_width, nvlinks, nvlink_errors;
    int busy, holders;
    Holder holder[MAX_PROCS];
} Gpu;

static Gpu gpus[MAX_GPUS];
static int gpu_count, init_error, references, map_count;
static uint32_t pid_offset, map_from[MAX_MAP], map_to[MAX_MAP];
static char driver[80], root[3900];
static int64_t read_at;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void take_driver(const char *key, const char *value) {
    if (!strcmp(key, "version")) snprintf(driver, sizeof driver, "%s", value);
    else if (!strcmp(key, "init_error")) init_error = atoi(value);
    else if (!strcmp(key, "offset")) pid_offset = (uint32_t)strtoul(value, 0, 10);
    else if (!strcmp(key, "map") && map_count < MAX_MAP &&
             sscanf(value, "%u %u", &map_from[map_count], &map_to[map_count]) == 2) map_count++;
}

static void take_device(Gpu *g, const char *key, const char *value) {
    struct { const char *key; int *place; } ints[] = {
        {"util", &g->util}, {"temp", &g->temp}, {"power", &g->power}, {"power_limit", &g->power_limit}, {"sm_clock", &g->sm_clock},
        {"mem_clock", &g->mem_clock}, {"error", &g->error}, {"hang_ms", &g->hang_ms}, {"xid", &g->xid}, {"xid_seq", &g->xid_seq},
        {"pcie_gen", &g->pcie_gen}, {"pcie_width", &g->pcie_width}, {"nvlinks", &g->nvlinks}, {"nvlink_errors", &g->nvlink_errors}};
    struct { const char *key; uint64_t *place; } longs[] = {
        {"total", &g->total}, {"reserved", &g->reserved}, {"throttle", &g->throttle}, {"ecc", &g->ecc}};
    for (unsigned i = 0; i < sizeof ints / sizeof *ints; i++) if (!strcmp(key, ints[i].key)) *ints[i].place = atoi(value);
    for (unsigned i = 0; i < sizeof longs / sizeof *longs; i++) if (!strcmp(key, longs[i].key)) *longs[i].place = strtoull(value, 0, 10);
    if (!strcmp(key, "name")) snprintf(g->name, sizeof g->name, "%s", value);
    if (!strcmp(key, "uuid")) snprintf(g->uuid, sizeof g->uuid, "%s", value);
}

static int read_settings(const char *file, Gpu *g) {
    char path[4096], line[256];
    snprintf(path, sizeof path, "%s/%s", root, file);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        char *space = strchr(line, ' ');
        line[strcspn(line, "\n")] = 0;
        if (!space) continue;
        *space = 0;
        if (g) take_device(g, line, space + 1); else take_driver(line, space + 1);
    }
    fclose(f);
    return 1;
}

static int alive(uint32_t pid, unsigned long long ticks) {
    char path[64], text[1024], state;
    unsigned long long started;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    char *end = strrchr(text, ')');
    if (!end || sscanf(end + 2, "%c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state, &started) != 2) return 0;
    return started == ticks && state != 'Z' && state != 'X';
}

static int busy_percent(const char *name, int64_t now) {
    char path[4096], text[64];
    snprintf(path, sizeof path, "%s/holders/%s", root, name);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    long long until = 0;
    int percent = 0;
    int read = fgets(text, sizeof text, f) && sscanf(text, "%lld %d", &until, &percent) == 2;
    fclose(f);
    if (!read || now >= until + WINDOW_MS) return 0;
    return now < until ? percent : (int)(percent * (until + WINDOW_MS - now) / WINDOW_MS);
}

static uint32_t reported(uint32_t pid) {
    for (int i = 0; i < map_count; i++) if (map_from[i] == pid) return map_to[i];
    return pid + pid_offset;
}

static void read_holders(int64_t now) {
    char path[4096];
    snprintf(path, sizeof path, "%s/holders", root);
    DIR *d = opendir(path);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        unsigned index, pid;
        unsigned long long ticks, bytes;
        if (sscanf(e->d_name, "%u-%u-%llu-%llu", &index, &pid, &ticks, &bytes) != 4 || index >= (unsigned)gpu_count || !alive(pid, ticks)) continue;
        Gpu *g = &gpus[index];
        g->used += bytes;
        int busy = busy_percent(e->d_name, now);
        if (busy > g->busy) g->busy = busy;
        int i = 0;
        while (i < g->holders && g->holder[i].pid != reported(pid)) i++;
        if (i == MAX_PROCS) continue;
        if (i == g->holders) g->holder[g->holders++] = (Holder){reported(pid), 0};
        g->holder[i].memory += bytes;
    }
    closedir(d);
}

static void refresh(void) {
    int64_t now = now_ms();
    if (read_at && now - read_at < REFRESH_MS) return;
    read_at = now;
    map_count = 0;
    pid_offset = 0;
    read_settings("driver", 0);
    for (gpu_count = 0; gpu_count < MAX_GPUS; gpu_count++) {
        char name[32];
        Gpu fresh = {.util = -1, .temp = -1, .power = -1, .power_limit = 700, .sm_clock = 1980, .mem_clock = 2619,
                     .pcie_gen = 5, .pcie_width = 16, .nvlinks = LINKS};
        snprintf(name, sizeof name, "devices/%d", gpu_count);
        if (!read_settings(name, &fresh)) break;
        gpus[gpu_count] = fresh;
    }
    read_holders(now);
}

static Return start(void) {
    Dl_info info;
    dladdr((void *)start, &info);
    snprintf(root, sizeof root, "%s", info.dli_fname);
    for (int i = 0; i < 2; i++) { char *slash = strrchr(root, '/'); if (slash) *slash = 0; else snprintf(root, sizeof root, ".."); }
    strncat(root, "/gpu", sizeof root - strlen(root) - 1);
    read_at = 0;
    driver[0] = 0;
    init_error = 0;
    refresh();
    if (!driver[0]) return DRIVER_NOT_LOADED;
    if (!init_error) references++;
    return init_error;
}

/* Every call on a device begins here: it may hang or fail, as set, and otherwise leaves a fresh copy in *g. */
static Return look(Gpu *handle, Gpu *g) {
    if (!references) return UNINITIALIZED;
    if (handle < gpus || handle >= gpus + MAX_GPUS) return INVALID_ARGUMENT;
    pthread_mutex_lock(&lock);
    refresh();
    *g = *handle;
    pthread_mutex_unlock(&lock);
    if (g->hang_ms) { struct timespec t = {g->hang_ms / 1000, g->hang_ms % 1000 * 1000000L}; nanosleep(&t, 0); }
    return g->error;
}

static Return text(char *out, uint32_t size, const char *value) {
    if (strlen(value) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

static int utilization(const Gpu *g) {
    if (g->util >= 0) return g->util;
    int jitter = g->busy > 4 ? (int)(now_ms() / 700 * 2654435761u % 5) - 4 : 0;
    return g->busy + jitter;
}

#define API __attribute__((visibility("default"))) Return
#define LOCKED(body) pthread_mutex_lock(&lock); body; pthread_mutex_unlock(&lock)
#define DEVICE(...) (Gpu *h, __VA_ARGS__) { Gpu g; Return r = look(h, &g); if (r) return r;

API nvmlInitWithFlags(unsigned flags) { (void)flags; Return r; LOCKED(r = start()); return r; }
API nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API nvmlInit(void) { return nvmlInitWithFlags(0); }
API nvmlShutdown(void) { if (!references) return UNINITIALIZED; references--; return SUCCESS; }
API nvmlSystemGetDriverVersion(char *out, uint32_t n) { return references ? text(out, n, driver) : UNINITIALIZED; }
API nvmlSystemGetNVMLVersion(char *out, uint32_t n) { return references ? text(out, n, "13.580.65.06") : UNINITIALIZED; }
API nvmlSystemGetCudaDriverVersion_v2(int *v) { if (!references) return UNINITIALIZED; *v = 13000; return SUCCESS; }
API nvmlSystemGetCudaDriverVersion(int *v) { return nvmlSystemGetCudaDriverVersion_v2(v); }
API nvmlDeviceGetCount_v2(uint32_t *n) { if (!references) return UNINITIALIZED; LOCKED(refresh(); *n = gpu_count); return SUCCESS; }
API nvmlDeviceGetHandleByIndex_v2(uint32_t i, Gpu **h) {
    if (!references) return UNINITIALIZED;
    if (i >= (uint32_t)gpu_count) return INVALID_ARGUMENT;
    *h = &gpus[i];
    return SUCCESS;
}
API nvmlDeviceGetHandleByUUID(const char *uuid, Gpu **h) {
    if (!references) return UNINITIALIZED;
    for (int i = 0; i < gpu_count; i++) if (!strcmp(uuid, gpus[i].uuid)) { *h = &gpus[i]; return SUCCESS; }
    return NOT_FOUND;
}
API nvmlDeviceGetIndex DEVICE(uint32_t *i) *i = h - gpus; return SUCCESS; }
API nvmlDeviceGetMinorNumber DEVICE(uint32_t *i) *i = h - gpus; return SUCCESS; }
API nvmlDeviceGetName DEVICE(char *out, uint32_t n) return text(out, n, g.name); }
API nvmlDeviceGetUUID DEVICE(char *out, uint32_t n) return text(out, n, g.uuid); }
API nvmlDeviceGetSerial DEVICE(char *out, uint32_t n) return text(out, n, "1650000000000"); }

typedef struct { uint64_t total, free, used; } Memory;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } Memory2;
API nvmlDeviceGetMemoryInfo DEVICE(Memory *m) *m = (Memory){g.total, g.total - g.used - g.reserved, g.used + g.reserved}; return SUCCESS; }
API nvmlDeviceGetMemoryInfo_v2 DEVICE(Memory2 *m)
    if (m->version != 0x02000028) return ARGUMENT_VERSION_MISMATCH;
    *m = (Memory2){m->version, g.total, g.reserved, g.total - g.used - g.reserved, g.used};
    return SUCCESS;
}
API nvmlDeviceGetBAR1MemoryInfo DEVICE(Memory *m) *m = (Memory){1ull << 37, (1ull << 37) - (1 << 20), 1 << 20}; return SUCCESS; }
typedef struct { uint32_t gpu, memory; } Rates;
API nvmlDeviceGetUtilizationRates DEVICE(Rates *u) u->gpu = utilization(&g); u->memory = u->gpu * 2 / 5; return SUCCESS; }
API nvmlDeviceGetTemperature DEVICE(int sensor, uint32_t *t) (void)sensor; *t = g.temp >= 0 ? g.temp : 31 + utilization(&g) * 2 / 5; return SUCCESS; }
typedef struct { uint32_t version; int sensor, value; } Temperature;
API nvmlDeviceGetTemperatureV DEVICE(Temperature *t) t->value = g.temp >= 0 ? g.temp : 31 + utilization(&g) * 2 / 5; return SUCCESS; }
API nvmlDeviceGetPowerUsage DEVICE(uint32_t *p)
    int idle = g.used ? 118 : 72;
    *p = 1000u * (g.power >= 0 ? g.power : idle + (g.power_limit - idle) * utilization(&g) / 110);
    return SUCCESS;
}
API nvmlDeviceGetPowerManagementLimit DEVICE(uint32_t *p) *p = 1000u * g.power_limit; return SUCCESS; }
API nvmlDeviceGetEnforcedPowerLimit DEVICE(uint32_t *p) *p = 1000u * g.power_limit; return SUCCESS; }
API nvmlDeviceGetClockInfo DEVICE(int type, uint32_t *c) *c = type == 2 ? g.mem_clock : g.sm_clock; return SUCCESS; }
API nvmlDeviceGetMaxClockInfo DEVICE(int type, uint32_t *c) *c = type == 2 ? 2619 : 1980; return SUCCESS; }
API nvmlDeviceGetCurrentClocksEventReasons DEVICE(uint64_t *m) *m = g.throttle; return SUCCESS; }
API nvmlDeviceGetCurrentClocksThrottleReasons DEVICE(uint64_t *m) *m = g.throttle; return SUCCESS; }
API nvmlDeviceGetTotalEccErrors DEVICE(int type, int counter, uint64_t *n) (void)counter; *n = type == 1 ? g.ecc : 0; return SUCCESS; }
API nvmlDeviceGetEccMode DEVICE(uint32_t *now, uint32_t *next) *now = *next = 1; return SUCCESS; }
API nvmlDeviceGetRemappedRows DEVICE(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d) *a = *b = *c = *d = 0; return SUCCESS; }
API nvmlDeviceGetPerformanceState DEVICE(int *p) *p = 0; return SUCCESS; }
API nvmlDeviceGetPersistenceMode DEVICE(int *p) *p = 1; return SUCCESS; }
API nvmlDeviceGetComputeMode DEVICE(int *p) *p = 0; return SUCCESS; }
API nvmlDeviceGetMigMode DEVICE(uint32_t *a, uint32_t *b) *a = *b = 0; return SUCCESS; }
API nvmlDeviceIsMigDeviceHandle DEVICE(uint32_t *a) *a = 0; return SUCCESS; }
API nvmlDeviceGetMaxMigDeviceCount DEVICE(uint32_t *a) *a = 0; return SUCCESS; }
API nvmlDeviceGetCudaComputeCapability DEVICE(int *a, int *b) *a = 9; *b = 0; return SUCCESS; }
API nvmlDeviceGetFanSpeed DEVICE(uint32_t *p) (void)p; return NOT_SUPPORTED; }
API nvmlDeviceGetDisplayActive DEVICE(int *p) *p = 0; return SUCCESS; }
API nvmlDeviceGetDisplayMode DEVICE(int *p) *p = 0; return SUCCESS; }
API nvmlDeviceGetDriverModel DEVICE(int *a, int *b) (void)a; (void)b; return NOT_SUPPORTED; }
API nvmlDeviceGetDriverModel_v2 DEVICE(int *a, int *b) (void)a; (void)b; return NOT_SUPPORTED; }
typedef struct { char legacy[16]; uint32_t domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
API nvmlDeviceGetPciInfo_v3 DEVICE(Pci *p)
    unsigned bus = 0x1b + (unsigned)(h - gpus);
    memset(p, 0, sizeof *p);
    p->bus = bus;
    p->id = 0x233010de;
    snprintf(p->legacy, sizeof p->legacy, "0000:%02X:00.0", bus & 0xff);
    snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", bus & 0xff);
    return SUCCESS;
}

/* An H100 SXM: PCIe 5.0 x16, 18 NVLinks, those from `nvlinks` on are down. As in the driver each PCIe counter counts for 20 ms. */
API nvmlDeviceGetCurrPcieLinkGeneration DEVICE(uint32_t *v) *v = g.pcie_gen; return SUCCESS; }
API nvmlDeviceGetMaxPcieLinkGeneration DEVICE(uint32_t *v) *v = 5; return SUCCESS; }
API nvmlDeviceGetCurrPcieLinkWidth DEVICE(uint32_t *v) *v = g.pcie_width; return SUCCESS; }
API nvmlDeviceGetMaxPcieLinkWidth DEVICE(uint32_t *v) *v = 16; return SUCCESS; }
API nvmlDeviceGetPcieThroughput DEVICE(int counter, uint32_t *kilobytes)
    usleep(20000);
    *kilobytes = 400 + (uint32_t)utilization(&g) * (counter ? 9000 : 2500);
    return SUCCESS;
}
API nvmlDeviceGetNvLinkState DEVICE(uint32_t link, int *up) if (link >= LINKS) return INVALID_ARGUMENT; *up = (int)link < g.nvlinks; return SUCCESS; }
typedef struct { uint32_t id, scope; int64_t time, took; int type, result; uint64_t value; } Field;
API nvmlDeviceGetFieldValues DEVICE(int n, Field *f)
    /* All errors are replays (52); 38 and 45, CRC, stay 0; there is nothing else. */
    for (int i = 0; i < n; i++) {
        f[i].result = f[i].id == 52 || f[i].id == 38 || f[i].id == 45 ? SUCCESS : NOT_SUPPORTED;
        f[i].value = f[i].id == 52 ? (uint64_t)g.nvlink_errors : 0;
    }
    return SUCCESS;
}

typedef struct { uint32_t pid; uint64_t memory; uint32_t instance, compute; } Process;
API nvmlDeviceGetComputeRunningProcesses_v3 DEVICE(uint32_t *n, Process *p)
    uint32_t room = *n;
    *n = g.holders;
    if (g.holders && (!p || room < *n)) return INSUFFICIENT_SIZE;
    for (int i = 0; i < g.holders; i++) p[i] = (Process){g.holder[i].pid, g.holder[i].memory, 0xffffffff, 0xffffffff};
    return SUCCESS;
}
API nvmlDeviceGetComputeRunningProcesses_v2(Gpu *h, uint32_t *n, Process *p) { return nvmlDeviceGetComputeRunningProcesses_v3(h, n, p); }
API nvmlDeviceGetGraphicsRunningProcesses_v3 DEVICE(uint32_t *n, Process *p) (void)p; *n = 0; return SUCCESS; }
API nvmlDeviceGetGraphicsRunningProcesses_v2(Gpu *h, uint32_t *n, Process *p) { return nvmlDeviceGetGraphicsRunningProcesses_v3(h, n, p); }
API nvmlDeviceGetMPSComputeRunningProcesses_v3 DEVICE(uint32_t *n, Process *p) (void)p; *n = 0; return SUCCESS; }

/* Xid events: a set remembers which sequence number of each device it has seen. */
typedef struct { Gpu *device; uint64_t type, data; uint32_t instance, compute; } Event;
typedef struct { int seen[MAX_GPUS]; } EventSet;
API nvmlEventSetCreate(EventSet **set) {
    if (!references) return UNINITIALIZED;
    *set = calloc(1, sizeof **set);
    LOCKED(refresh(); for (int i = 0; i < gpu_count; i++) (*set)->seen[i] = gpus[i].xid_seq);
    return SUCCESS;
}
API nvmlEventSetFree(EventSet *set) { free(set); return SUCCESS; }
API nvmlDeviceGetSupportedEventTypes DEVICE(uint64_t *t) *t = 0xb; return SUCCESS; }
API nvmlDeviceRegisterEvents DEVICE(uint64_t types, EventSet *set) (void)types; (void)set; return SUCCESS; }
API nvmlEventSetWait_v2(EventSet *set, Event *event, uint32_t ms) {
    if (!references) return UNINITIALIZED;
    for (int64_t end = now_ms() + ms;;) {
        int found = -1, xid = 0;
        LOCKED(refresh(); for (int i = 0; i < gpu_count && found < 0; i++)
            if (gpus[i].xid_seq != set->seen[i]) { set->seen[i] = gpus[i].xid_seq; xid = gpus[i].xid; found = i; });
        if (found >= 0) { *event = (Event){&gpus[found], 8, (uint64_t)xid, 0xffffffff, 0xffffffff}; return SUCCESS; }
        if (now_ms() >= end) return TIMEOUT;
        usleep(20000);
    }
}

__attribute__((visibility("default"))) const char *nvmlErrorString(Return r) {
    switch (r) {
        case SUCCESS: return "Success";
        case UNINITIALIZED: return "Uninitialized";
        case INVALID_ARGUMENT: return "Invalid Argument";
        case NOT_SUPPORTED: return "Not Supported";
        case NOT_FOUND: return "Not Found";
        case INSUFFICIENT_SIZE: return "Insufficient Size";
        case DRIVER_NOT_LOADED: return "Driver Not Loaded";
        case TIMEOUT: return "Timeout";
        case 15: return "GPU is lost";
        default: return "Unknown Error";
    }
}
