package redistest

// Must returns the value of a call, as in Must(f())(t), and fails the test on its error.
func Must[T any](value T, err error) func(t TB) T {
	return func(t TB) T {
		t.Helper()
		NoError(t, err)
		return value
	}
}

// NoError fails the test on an error.
func NoError(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// check fails the test on an error of this package.
func check(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
}
