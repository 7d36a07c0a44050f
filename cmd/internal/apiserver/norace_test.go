//go:build !race

package apiserver_test

// raceEnabled: the race detector is off in this test binary.
const raceEnabled = false
