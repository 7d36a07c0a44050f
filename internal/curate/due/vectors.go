package due

import "errors"

// ErrBuildsTaken says that an index of vectors is due to be built, but that the maximum number of
// such builds is under way in the database.
var ErrBuildsTaken = errors.New("as many indexes of vectors are being built as may be at once")
