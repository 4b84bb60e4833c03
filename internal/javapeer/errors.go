package javapeer

import "errors"

// Methods return these errors besides an Error.
var (
	// ErrNoJava: java, or mvn where the peer must be built, is not in PATH. The
	// error that wraps it names the program.
	ErrNoJava = errors.New("javapeer: the Java peer needs a JDK and Maven")

	// ErrEnded: the peer has ended, by Close or for another reason. The error that wraps
	// it holds the end of what the peer printed.
	ErrEnded = errors.New("javapeer: the peer has ended")
)

// Error is an exception of the Java side. Find it with errors.As: the methods
// wrap it with the name of the operation.
type Error struct {
	Type    string // the class, as in java.lang.IllegalArgumentException
	Message string
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }
