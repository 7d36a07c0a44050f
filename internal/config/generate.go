package config

//go:generate go test -run TestConfigurationPage -update .
