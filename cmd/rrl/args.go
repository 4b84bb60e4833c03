package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redisson-go/rratelimiter/internal/words"
)

// named checks the arguments of a command whose Use names them: there are least to most, of which the first
// are names of limiters.
func named(names, least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if use := strings.Fields(cmd.Use); len(args) < least && len(args)+1 < len(use) {
			missing := strings.TrimRight(use[len(args)+1], ".") // behind the name of the command
			return fmt.Errorf("%s is missing, as in %q", missing, "rrl "+cmd.Use)
		}
		if len(args) < least || len(args) > most {
			count := words.Count(int64(len(args)), "argument")
			return fmt.Errorf("%s, must be as in %q", count, "rrl "+cmd.Use)
		}
		for i, name := range args[:min(names, len(args))] {
			if name == "" {
				return fmt.Errorf("NAME is \"\" (argument %d), must not be empty", i+1)
			}
			if urlOfRedis.MatchString(name) { // it may have a password, and names are printed
				return fmt.Errorf("NAME is an address (argument %d), which belongs behind --redis", i+1)
			}
		}
		return nil
	}
}

// urlOfRedis is an address with a password.
var urlOfRedis = regexp.MustCompile(`^rediss?(\+\w+)?://.*@`)

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
		return 0, fmt.Errorf("%s is %q, must be %s", argument, text, forms["duration"])
	}
	return d, nil
}

// rateArgs reads RATE INTERVAL, or RATE/INTERVAL.
func rateArgs(args []string) (rate int64, interval time.Duration, err error) {
	if n, per, ok := strings.Cut(args[0], "/"); ok && len(args) == 1 {
		args = []string{n, per}
	}
	if len(args) == 1 {
		return 0, 0, errors.New("INTERVAL is missing, as in 5 1s or 5/1s")
	}
	if rate, err = integer("RATE", args[0]); err == nil {
		interval, err = duration("INTERVAL", args[1])
	}
	return rate, interval, err
}

// forms are the values that flags take, by the type of the flag.
var forms = map[string]string{
	"int": "an integer", "int64": "an integer", "bool": "true or false",
	"stringSlice": "names with commas between them, without quotes",
	"duration":    "a duration with a unit, such as 500ms, 1s, 1m30s or 24h; there is no unit for days",
}

// number is an argument that looks like a flag.
var number = regexp.MustCompile(`^-[0-9.]`)

// flagError says what is wrong with a flag or its value.
func flagError(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		form := forms[bad.GetFlag().Value.Type()]
		return fmt.Errorf("--%s is %q, must be %s", bad.GetFlag().Name, bad.GetValue(), form)
	}
	if bad, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if text := "-" + bad.GetSpecifiedShortnames(); number.MatchString(text) {
			hint := ""
			if cmd.Flags().Lookup("permits") != nil {
				hint = "; permits are given by --permits"
			}
			return fmt.Errorf("%q is not a flag, and no argument of %q is negative%s", text,
				"rrl "+cmd.Use, hint)
		}
	}
	return err
}

// yesFlag adds the flag that answers a question.
func yesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask")
}

// no returns errNo for a result that is printed, but is a no.
func no(err error, yes bool) error {
	if err == nil && !yes {
		return errNo
	}
	return err
}

// upMillis returns a time in ms, rounded up: after it the time has passed.
func upMillis(d time.Duration) int64 {
	return (d + time.Millisecond - 1).Milliseconds()
}
