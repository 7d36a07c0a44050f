//go:build !race

package apiserver_test

// underRace: the race detector is off in this test binary.
const underRace = false
