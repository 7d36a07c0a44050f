package main

//go:generate go test -run TestConfigurationPage -update .
