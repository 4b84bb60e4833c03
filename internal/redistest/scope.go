package redistest

import (
	"errors"
	"fmt"
	"slices"
)

// A Scope is the TB of a program that is not a test. Everything that is started in it
// ends with it. The zero value is ready to use.
type Scope struct{ cleanups []func() }

var _ TB = (*Scope)(nil)

// Helper does nothing: no line numbers are printed.
func (*Scope) Helper() {}

// Name returns a fixed name: no server is named after it.
func (*Scope) Name() string { return "program" }

// Logf prints nothing: such a program prints only its results.
func (*Scope) Logf(string, ...any) {}

// Cleanup keeps f for the end.
func (s *Scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// Fatalf ends the scope: it panics with an error for End.
func (*Scope) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Skipf is Fatalf: a program that cannot do its work fails.
func (s *Scope) Skipf(format string, args ...any) { s.Fatalf(format, args...) }

// failure is what Fatalf panics with.
type failure struct{ error }

// End runs the cleanups, the last one first. cause is the recovered value: a panic
// of Fatalf becomes an error, and any other panic continues.
func (s *Scope) End(cause any, err *error) {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
	s.cleanups = nil
	if f, ok := cause.(failure); ok {
		*err = errors.Join(*err, f.error)
	} else if cause != nil {
		panic(cause)
	}
}
