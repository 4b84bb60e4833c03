package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// A webServer is a http.Server that drains without losing a request. Shutdown closes connections whose
// first request it has not read yet, though the client may have sent it.
type webServer struct {
	*http.Server
	listener net.Listener
	busy     sync.Map // net.Conn of a request that is under way or may come
}

// note is the ConnState of the Server.
func (w *webServer) note(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew, http.StateActive:
		w.busy.Store(c, nil)
	default:
		w.busy.Delete(c)
	}
}

// drain ends the server when its requests have ended, or ctx.
func (w *webServer) drain(ctx context.Context) {
	_ = w.listener.Close()
	// A client that has only just connected sends its request, unless it is a mere probe of the port.
	coming, cancel := context.WithTimeout(ctx, leaving)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for w.isBusy() && coming.Err() == nil {
		<-look.C
	}
	if w.Shutdown(ctx) != nil {
		_ = w.Close()
	}
}

func (w *webServer) isBusy() (busy bool) {
	w.busy.Range(func(any, any) bool { busy = true; return false })
	return busy
}
