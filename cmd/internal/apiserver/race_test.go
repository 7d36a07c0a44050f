//go:build race

package apiserver_test

// raceEnabled: the race detector is on in this test binary.
const raceEnabled = true
