/*
 * driver.h - what package cuda asks of NVIDIA's driver.
 *
 * The driver's library is opened at run time, and the few functions used of it are declared in driver.c: neither building
 * nor loading this needs anything of CUDA. Each call here does all its work on the thread it is made on, with the context
 * made current at its beginning and put back at its end, so that a caller's own context is never changed.
 */
#ifndef HAWKEYE_CUDA_DRIVER_H
#define HAWKEYE_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* What a call returns: 0, one of these, or a positive error of the driver. */
enum {
    hawkeyeCudaNoLibrary = -1,  /* libcuda.so.1 is not there; the message is the dynamic linker's */
    hawkeyeCudaNoFunction = -2, /* it lacks a function; the message is its name */
};

/* Opens the library and starts the driver. Not to be called by two threads at once. */
int hawkeyeCudaLoad(char *message, size_t size);

/* The name and the sentence of a driver's error. */
void hawkeyeCudaErrorText(int error, char *text, size_t size);

int hawkeyeCudaDevices(int *count, int *version);
int hawkeyeCudaAbout(int device, char *name, size_t size, int *major, int *minor, int *grid);

/* The device's primary context, which is shared with all of the process and kept until it is released. */
int hawkeyeCudaRetain(int device, void **context);
int hawkeyeCudaRelease(int device);

/* Translates a kernel; log is the translator's, where it fails. */
int hawkeyeCudaLoadKernel(void *context, const char *text, const char *entry, void **module, void **kernel, char *log, size_t size);
int hawkeyeCudaUnload(void *context, void *module);

int hawkeyeCudaAllocate(void *context, size_t size, uint64_t *memory);
int hawkeyeCudaFree(void *context, uint64_t memory);

/* One answer of a kernel probe(a, b, c, d): copies a, b and c to the device's memory at `memory`, runs blocks × threads,
 * waits, and copies d back. `stage` says how far it came: 0 copying, 1 running, 2 copying back. d is as
 * large as c. */
int hawkeyeCudaRun(void *context, void *kernel, uint32_t blocks, uint32_t threads, const uint64_t memory[4],
                   const void *a, const void *b, const void *c, void *d, size_t size_a, size_t size_b, size_t size_c, int *stage);

#endif
