/* A stand-in for libnvidia-ml.so.1 with NVML's C ABI, as far as the agent calls it. What it answers lies in a file that the test maps too
 * (FAKE_NVML; layout: fake_nvml.py). -DOLD_DRIVER leaves out what drivers before 510 do not export. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, TOO_SMALL = 7, NO_DRIVER = 9, TIMED_OUT = 10 };

typedef struct { uint32_t pid, reserved; uint64_t memory; } Process;
typedef struct {
  char name[64], uuid[64];
  uint64_t total, used, reserved, throttle, ecc;
  uint32_t util, mem_util, temp, power, power_limit, sm_clock, mem_clock;
  uint32_t minor, result, hang, xid, xid_count, events, power_result, process_count, handle_result;
  uint32_t pcie_width, pcie_result, links, links_up, link_errors;
  Process processes[8];
} Gpu;
typedef struct { char driver[64]; uint32_t count, init_result, driver_result, calls; Gpu gpus[16]; } State;

static volatile State *state;
static int users;

static void nap(void) { struct timespec t = {0, 5000000}; nanosleep(&t, 0); }

static int ready(void) {
  if (!users) return UNINITIALIZED;
  return state->driver_result;
}

static int answer(volatile Gpu *g) {
  int r = ready();
  if (r) return r;
  state->calls++;
  while (g->hang) nap();
  return g->result;
}

static int text(char *to, unsigned size, volatile const char *from) {
  if (strlen((const char *)from) >= size) return TOO_SMALL;
  strcpy(to, (const char *)from);
  return OK;
}

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  if (!state) {
    const char *path = getenv("FAKE_NVML");
    int fd = path ? open(path, O_RDWR) : -1;
    if (fd < 0) return NO_DRIVER;
    void *map = mmap(0, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) return NO_DRIVER;
    state = map;
  }
  if (state->init_result) return state->init_result;
  users++;
  return OK;
}
int nvmlShutdown(void) {
  if (!users) return UNINITIALIZED;
  if (--users == 0) { munmap((void *)state, sizeof(State)); state = 0; }
  return OK;
}
const char *nvmlErrorString(int r) { return r == OK ? "Success" : "an error"; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { int r = ready(); return r ? r : text(to, size, state->driver); }
int nvmlDeviceGetCount_v2(unsigned *n) { int r = ready(); if (!r) *n = state->count; return r; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, volatile Gpu **g) {
  int r = ready();
  if (r) return r;
  if (i >= state->count) return INVALID;
  if (state->gpus[i].handle_result) return state->gpus[i].handle_result;
  *g = &state->gpus[i];
  return OK;
}

#define FIELD(NAME, TYPE, EXPRESSION) int NAME(volatile Gpu *g, TYPE *out) { int r = answer(g); if (!r) *out = (EXPRESSION); return r; }
FIELD(nvmlDeviceGetMinorNumber, uint32_t, g->minor)
FIELD(nvmlDeviceGetEnforcedPowerLimit, uint32_t, g->power_limit)
int nvmlDeviceGetPowerUsage(volatile Gpu *g, uint32_t *out) {
  int r = answer(g);
  if (!r) *out = g->power;
  return r ? r : (int)g->power_result;
}
int nvmlDeviceGetName(volatile Gpu *g, char *to, unsigned size) { int r = answer(g); return r ? r : text(to, size, g->name); }
int nvmlDeviceGetUUID(volatile Gpu *g, char *to, unsigned size) { int r = answer(g); return r ? r : text(to, size, g->uuid); }
int nvmlDeviceGetTemperature(volatile Gpu *g, int sensor, uint32_t *out) { int r = answer(g); if (!r && !sensor) *out = g->temp; return r; }
int nvmlDeviceGetClockInfo(volatile Gpu *g, int which, uint32_t *out) {
  int r = answer(g);
  if (!r) *out = which == 2 ? g->mem_clock : g->sm_clock;
  return r;
}
int nvmlDeviceGetTotalEccErrors(volatile Gpu *g, int uncorrected, int aggregate, uint64_t *out) {
  int r = answer(g);
  if (!r) *out = uncorrected && !aggregate ? g->ecc : 0;
  return r;
}
#ifndef OLD_DRIVER
#define PCIE(NAME, VALUE) int NAME(volatile Gpu *g, uint32_t *out) { int r = answer(g); if (!r) *out = (VALUE); return r ? r : (int)g->pcie_result; }
PCIE(nvmlDeviceGetCurrPcieLinkGeneration, 5)
PCIE(nvmlDeviceGetMaxPcieLinkGeneration, 5)
PCIE(nvmlDeviceGetCurrPcieLinkWidth, g->pcie_width)
PCIE(nvmlDeviceGetMaxPcieLinkWidth, 16)
int nvmlDeviceGetPcieThroughput(volatile Gpu *g, int counter, uint32_t *out) {
  int r = answer(g);
  if (!r) *out = counter ? 90000 : 1200;
  return r ? r : (int)g->pcie_result;
}
int nvmlDeviceGetNvLinkState(volatile Gpu *g, uint32_t link, uint32_t *up) {
  int r = answer(g);
  if (!r && link >= g->links) return g->links ? INVALID : UNSUPPORTED;
  if (!r) *up = link < g->links_up;
  return r;
}
typedef struct { uint32_t id, scope; int64_t time, took; int type, result; uint64_t value; } Value;
int nvmlDeviceGetFieldValues(volatile Gpu *g, int n, Value *values) {
  int r = answer(g);
  for (int i = 0; !r && i < n; i++) {
    values[i].result = values[i].id == 52 ? OK : UNSUPPORTED;
    values[i].value = g->link_errors;
  }
  return r;
}
#endif
typedef struct { uint32_t gpu, memory; } Rates;
int nvmlDeviceGetUtilizationRates(volatile Gpu *g, Rates *out) {
  int r = answer(g);
  if (!r) { out->gpu = g->util; out->memory = g->mem_util; }
  return r;
}
typedef struct { uint64_t total, unused, used; } Memory;
int nvmlDeviceGetMemoryInfo(volatile Gpu *g, Memory *out) {
  int r = answer(g);
  if (!r) { out->total = g->total; out->used = g->used + g->reserved; out->unused = out->total - out->used; }
  return r;
}
#ifdef OLD_DRIVER
FIELD(nvmlDeviceGetCurrentClocksThrottleReasons, uint64_t, g->throttle)
#else
FIELD(nvmlDeviceGetCurrentClocksEventReasons, uint64_t, g->throttle)
typedef struct { uint32_t version; uint64_t total, reserved, unused, used; } Memory2;
int nvmlDeviceGetMemoryInfo_v2(volatile Gpu *g, Memory2 *out) {
  int r = answer(g);
  if (!r && out->version != (sizeof(Memory2) | 2u << 24)) return 25;
  if (!r) { out->total = g->total; out->used = g->used; out->reserved = g->reserved; out->unused = g->total - g->used - g->reserved; }
  return r;
}
#endif

typedef struct { uint32_t pid; uint64_t memory; uint32_t instance, compute; } Listed;
static int list(volatile Gpu *g, unsigned *n, Listed *out, unsigned first, unsigned last) {
  int r = answer(g);
  if (r) return r;
  unsigned room = *n, count = last > first ? last - first : 0;
  *n = count;
  if (!count) return OK;
  if (!out || room < count) return TOO_SMALL;
  for (unsigned i = 0; i < count; i++) {
    out[i].pid = g->processes[first + i].pid;
    out[i].memory = g->processes[first + i].memory;
    out[i].instance = out[i].compute = 0xffffffff;
  }
  return OK;
}
#ifdef OLD_DRIVER
int nvmlDeviceGetComputeRunningProcesses_v2(volatile Gpu *g, unsigned *n, Listed *out) { return list(g, n, out, 0, g->process_count); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(volatile Gpu *g, unsigned *n, Listed *out) { return list(g, n, out, 0, 0); }
#else
int nvmlDeviceGetComputeRunningProcesses_v3(volatile Gpu *g, unsigned *n, Listed *out) { return list(g, n, out, 0, g->process_count); }
/* The first process draws too: it must not be counted twice. */
int nvmlDeviceGetGraphicsRunningProcesses_v3(volatile Gpu *g, unsigned *n, Listed *out) { return list(g, n, out, 0, g->process_count ? 1 : 0); }
#endif

typedef struct { volatile Gpu *device; uint64_t type, data; uint32_t instance, compute; } Event;
typedef struct { uint32_t seen[16]; int registered[16]; } Events;
FIELD(nvmlDeviceGetSupportedEventTypes, uint64_t, g->events)
int nvmlEventSetCreate(Events **out) { int r = ready(); if (!r) *out = calloc(1, sizeof(Events)); return r; }
int nvmlEventSetFree(Events *e) { free(e); return OK; }
int nvmlDeviceRegisterEvents(volatile Gpu *g, uint64_t types, Events *e) {
  int i = (int)(g - state->gpus);
  if (types != 8) return INVALID;
  e->registered[i] = 1;
  e->seen[i] = g->xid_count;
  return OK;
}
int nvmlEventSetWait_v2(Events *e, Event *out, uint32_t timeout) {
  (void)timeout; /* the agent looks, and does not wait */
  int r = ready();
  if (r) return r;
  for (unsigned i = 0; i < state->count; i++)
    if (e->registered[i] && state->gpus[i].xid_count != e->seen[i]) {
      e->seen[i]++;
      out->device = &state->gpus[i];
      out->type = 8;
      out->data = state->gpus[i].xid;
      return OK;
    }
  return TIMED_OUT;
}
