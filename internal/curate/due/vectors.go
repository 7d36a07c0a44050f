package due

import "errors"

// ErrBuildsTaken says that an index of vectors is to be built, and that as many are being
// built in the database as may be.
var ErrBuildsTaken = errors.New("as many indexes of vectors are being built as may be at once")
