package redistest

// RunWithoutLeaks is VerifyNoLeaks without the exit.
var RunWithoutLeaks = runWithoutLeaks
