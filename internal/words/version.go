package words

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version returns the version of the program as go install and go build record it, "(devel)" under go run,
// the commit if it was built in a clone, and the release of Go that built it.
func Version() string {
	v := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v += " " + s.Value
			}
		}
	}
	return fmt.Sprintf("%s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
