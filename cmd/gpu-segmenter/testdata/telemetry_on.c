// Loaded before the C library, for a test: leaves ONNX Runtime's telemetry on, whatever the program says, and has every
// name mean this machine, so that nothing is sent to anybody.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>

int setenv(const char *name, const char *value, int overwrite) {
	if (strcmp(name, "ORT_DISABLE_TELEMETRY") == 0)
		return 0;
	int (*next)(const char *, const char *, int) = dlsym(RTLD_NEXT, "setenv");
	return next(name, value, overwrite);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
	int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
	return next("127.0.0.1", service, hints, found);
}
