// Command capi is the shared library and static archive behind include/hawkeye.h. It holds conversions, checks and
// error codes and no arithmetic: every number is made in the core packages.
//
// The boundary has two sides. boundary.c defines the hawkeye_* functions: it refuses to enter Go in a forked child
// (the Go runtime does not survive fork, so this cannot be asked in Go), gives Go a default floating-point environment
// and gives the caller's back. The hawkeyeGo* functions exported here do the rest; they are internal to the library.
// The two names exist because cgo cannot export a function whose C declaration has const parameters.
//
// Build it with capi/build.sh, or with CMake at the root of the repository.
package main

// main is required of every main package and is never called in a library.
func main() {}
