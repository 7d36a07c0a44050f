//go:build race

package apiserver_test

// underRace: the race detector is on in this test binary.
const underRace = true
