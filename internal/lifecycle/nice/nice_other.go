//go:build !unix

package nice

func group(int) error { return errUnknown }

func session(int) error { return errUnknown }
