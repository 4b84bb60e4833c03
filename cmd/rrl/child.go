package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// The exit codes of a command that did not run, and the addition to the number of a signal that ended it, as
// in shells.
const (
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignalled = 128
)

// A child is the command that a claim runs. While there is a child, no signal ends rrl itself: the
// signals in ending end the wait for permits or the lock, and the running command gets all of them.
type child struct {
	app     *app
	cmd     *exec.Cmd
	signals chan os.Signal
	ending  []os.Signal // those of endWait that are not ignored
}

// newChild finds a command, and returns an exitCode if it cannot be run. The caller must close the child.
func (a *app) newChild(command []string) (*child, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return nil, a.cannotRun(err)
	}
	cmd := exec.Command(path, command[1:]...)
	cmd.Args[0] = command[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout.w, a.stderr
	const room = 8 // signals come one by one
	c := &child{cmd: cmd, app: a, signals: make(chan os.Signal, room), ending: heeded(endWait)}
	signal.Notify(c.signals, heeded(passedOn)...)
	return c, nil
}

// heeded returns the signals that this process does not ignore. Under nohup SIGHUP is ignored, and must stay
// so for the wait and for the command.
func heeded(signals []os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(signals), signal.Ignored)
}

// waiting returns the context of the wait before the command starts.
func (c *child) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, c.ending...)
}

// notRun returns the error for a wait that failed with err: an exitCode if a signal ended the wait.
func (c *child) notRun(waiting context.Context, err error) error {
	if waiting.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	fmt.Fprintln(c.app.stderr, "rrl: interrupted: the command was not run")
	return exitCode(exitInterrupted)
}

// cannotRun prints why a command does not run, and returns its exit code.
func (a *app) cannotRun(err error) error {
	fmt.Fprintf(a.stderr, "rrl: %v\n", err)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitCode(exitNotFound)
	}
	return exitCode(exitCannotRun)
}

// close stops catching signals.
func (c *child) close() { signal.Stop(c.signals) }

// start starts the command, unless a signal ended the wait. It drops other signals that came before: they
// would end a command that has not installed its handlers yet.
func (c *child) start() error {
	for len(c.signals) > 0 {
		if s := <-c.signals; slices.Contains(c.ending, s) {
			fmt.Fprintf(c.app.stderr, "rrl: %v: the command was not run\n", s)
			return exitCode(exitInterrupted)
		}
	}
	if err := c.cmd.Start(); err != nil {
		return c.app.cannotRun(err)
	}
	return nil
}

// wait passes signals on until the command ends, and returns its exit code. If lost is closed first, the
// command gets SIGTERM, and SIGKILL if it does not end within grace.
func (c *child) wait(lost <-chan struct{}, grace time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- c.cmd.Wait() }()
	var kill <-chan time.Time
	for {
		select {
		case s := <-c.signals:
			if !ofKeyboard(s) || !ofTerminal() {
				_ = c.cmd.Process.Signal(s) // it may have ended
			}
		case <-lost:
			fmt.Fprintf(c.app.stderr, "rrl: the lock is lost: the command must end within %v\n", grace)
			_ = c.cmd.Process.Signal(syscall.SIGTERM) // Windows has none
			lost, kill = nil, time.After(grace)
		case <-kill:
			_ = c.cmd.Process.Kill()
		case err := <-ended:
			return result(err)
		}
	}
}

// result returns the error of Wait, as an exitCode if the command ended with a code other than 0.
func result(err error) error {
	failed, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitCode(exitSignalled + int(status.Signal()))
	}
	return exitCode(failed.ExitCode())
}
