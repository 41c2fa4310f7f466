/* driver.c - see driver.h. Types and numbers are those that the driver API's documentation gives. */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int result;           /* CUresult */
typedef int device_number;    /* CUdevice */
typedef uint64_t device_data; /* CUdeviceptr */

enum {
    attribute_max_grid_x = 5,
    attribute_major = 75,
    attribute_minor = 76,
    option_error_log = 5,
    option_error_log_size = 6,
};

/* The functions, in the forms that have been the current ones since CUDA 4 (_v2: 64-bit sizes) and 7. */
static struct {
    result (*init)(unsigned);
    result (*version)(int *);
    result (*error_name)(result, const char **);
    result (*error_string)(result, const char **);
    result (*count)(int *);
    result (*get)(device_number *, int);
    result (*name)(char *, int, device_number);
    result (*attribute)(int *, int, device_number);
    result (*retain)(void **, device_number);
    result (*release)(device_number);
    result (*push)(void *);
    result (*pop)(void **);
    result (*synchronize)(void);
    result (*load)(void **, const void *, unsigned, int *, void **);
    result (*unload)(void *);
    result (*function)(void **, void *, const char *);
    result (*allocate)(device_data *, size_t);
    result (*free)(device_data);
    result (*to_device)(device_data, const void *, size_t);
    result (*to_host)(void *, device_data, size_t);
    result (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
} driver;

static const struct {
    const char *name;
    void **to;
} functions[] = {
    {"cuInit", (void **)&driver.init},
    {"cuDriverGetVersion", (void **)&driver.version},
    {"cuGetErrorName", (void **)&driver.error_name},
    {"cuGetErrorString", (void **)&driver.error_string},
    {"cuDeviceGetCount", (void **)&driver.count},
    {"cuDeviceGet", (void **)&driver.get},
    {"cuDeviceGetName", (void **)&driver.name},
    {"cuDeviceGetAttribute", (void **)&driver.attribute},
    {"cuDevicePrimaryCtxRetain", (void **)&driver.retain},
    {"cuDevicePrimaryCtxRelease_v2", (void **)&driver.release},
    {"cuCtxPushCurrent_v2", (void **)&driver.push},
    {"cuCtxPopCurrent_v2", (void **)&driver.pop},
    {"cuCtxSynchronize", (void **)&driver.synchronize},
    {"cuModuleLoadDataEx", (void **)&driver.load},
    {"cuModuleUnload", (void **)&driver.unload},
    {"cuModuleGetFunction", (void **)&driver.function},
    {"cuMemAlloc_v2", (void **)&driver.allocate},
    {"cuMemFree_v2", (void **)&driver.free},
    {"cuMemcpyHtoD_v2", (void **)&driver.to_device},
    {"cuMemcpyDtoH_v2", (void **)&driver.to_host},
    {"cuLaunchKernel", (void **)&driver.launch},
};

/* Messages are C strings of the caller's size, cut to fit. */
static void put(char *to, size_t size, const char *text) {
    if (size > 0)
        snprintf(to, size, "%s", text != NULL ? text : "");
}

int hawkeyeCudaLoad(char *message, size_t size) {
    /* RTLD_LOCAL: a program may have loaded the library for itself, and gets the same one. It is never closed: the driver
     * does not come back to life in a process that has unloaded it. */
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        put(message, size, dlerror());
        return hawkeyeCudaNoLibrary;
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *found = dlsym(library, functions[i].name);
        if (found == NULL) {
            put(message, size, functions[i].name);
            return hawkeyeCudaNoFunction;
        }
        memcpy(functions[i].to, &found, sizeof found); /* ISO C converts no pointer to data into one to a function */
    }
    return driver.init(0);
}

void hawkeyeCudaErrorText(int error, char *text, size_t size) {
    const char *name = NULL, *sentence = NULL;
    if (driver.error_name(error, &name) != 0 || name == NULL)
        name = "an error that this driver has no name for";
    if (driver.error_string(error, &sentence) != 0 || sentence == NULL)
        sentence = "no description";
    if (size > 0)
        snprintf(text, size, "%s, %d: %s", name, error, sentence);
}

int hawkeyeCudaDevices(int *count, int *version) {
    result r = driver.version(version);
    return r != 0 ? r : driver.count(count);
}

int hawkeyeCudaAbout(int device, char *name, size_t size, int *major, int *minor, int *grid) {
    device_number d;
    result r = driver.get(&d, device);
    if (r == 0)
        r = driver.name(name, (int)size, d);
    if (r == 0)
        r = driver.attribute(major, attribute_major, d);
    if (r == 0)
        r = driver.attribute(minor, attribute_minor, d);
    if (r == 0)
        r = driver.attribute(grid, attribute_max_grid_x, d);
    return r;
}

int hawkeyeCudaRetain(int device, void **context) {
    device_number d;
    result r = driver.get(&d, device);
    return r != 0 ? r : driver.retain(context, d);
}

int hawkeyeCudaRelease(int device) {
    device_number d;
    result r = driver.get(&d, device);
    return r != 0 ? r : driver.release(d);
}

/* Takes our context off again. The first error counts. */
static result leave(result r) {
    void *ours;
    result popped = driver.pop(&ours);
    return r != 0 ? r : popped;
}

int hawkeyeCudaLoadKernel(void *context, const char *text, const char *entry, void **module, void **kernel, char *log, size_t size) {
    int options[] = {option_error_log, option_error_log_size};
    void *values[] = {log, (void *)(uintptr_t)size};
    result r = driver.push(context);
    if (r != 0)
        return r;
    put(log, size, "");
    r = driver.load(module, text, 2, options, values);
    if (r == 0) {
        r = driver.function(kernel, *module, entry);
        if (r != 0)
            driver.unload(*module);
    }
    return leave(r);
}

int hawkeyeCudaUnload(void *context, void *module) {
    result r = driver.push(context);
    return r != 0 ? r : leave(driver.unload(module));
}

int hawkeyeCudaAllocate(void *context, size_t size, uint64_t *memory) {
    result r = driver.push(context);
    return r != 0 ? r : leave(driver.allocate(memory, size));
}

int hawkeyeCudaFree(void *context, uint64_t memory) {
    result r = driver.push(context);
    return r != 0 ? r : leave(driver.free(memory));
}

int hawkeyeCudaRun(void *context, void *kernel, uint32_t blocks, uint32_t threads, const uint64_t memory[4],
                   const void *a, const void *b, const void *c, void *d, size_t size_a, size_t size_b, size_t size_c, int *stage) {
    device_data at[4] = {memory[0], memory[1], memory[2], memory[3]};
    void *parameters[] = {&at[0], &at[1], &at[2], &at[3]};
    result r = driver.push(context);
    *stage = 0;
    if (r != 0)
        return r;
    r = driver.to_device(at[0], a, size_a);
    if (r == 0)
        r = driver.to_device(at[1], b, size_b);
    if (r == 0)
        r = driver.to_device(at[2], c, size_c);
    if (r == 0) {
        *stage = 1;
        r = driver.launch(kernel, blocks, 1, 1, threads, 1, 1, 0, NULL, parameters, NULL);
    }
    if (r == 0)
        r = driver.synchronize();
    if (r == 0) {
        *stage = 2;
        r = driver.to_host(d, at[3], size_c);
    }
    return leave(r);
}
