package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// named checks the arguments of a command whose Use tells what they are: there are least to most of
// them, and the first ones, as many as names, are names of limiters.
func named(names, least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("%d arguments, must be as in %q", len(args), "rrl "+cmd.Use)
		}
		for i, name := range args[:min(names, len(args))] {
			if name == "" {
				return fmt.Errorf("NAME is \"\" (argument %d), must not be empty", i+1)
			}
		}
		return nil
	}
}

// integer reads an argument. Its bounds are those of the library.
func integer(argument, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %q, must be an integer", argument, text)
	}
	return n, nil
}

// duration reads an argument.
func duration(argument, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		const bound = "must be a duration with a unit, such as 500ms, 1s, 1m30s or 24h"
		hint := ""
		if strings.HasSuffix(text, "d") {
			hint = "; there is no unit for days"
		}
		return 0, fmt.Errorf("%s is %q, %s%s", argument, text, bound, hint)
	}
	return d, nil
}

// upMillis returns a time in ms, rounded up: after it the time has passed.
func upMillis(d time.Duration) int64 {
	return (d + time.Millisecond - 1).Milliseconds()
}
