//go:build !unix

package nice

import "errors"

var errUnknown = errors.New("not known on this system")

func group(int) error { return errUnknown }

func session(int) error { return errUnknown }
