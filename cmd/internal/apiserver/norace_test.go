//go:build !race

package apiserver_test

// underRace: the race detector looks at this test binary.
const underRace = false
