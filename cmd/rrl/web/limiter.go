package web

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// A client is chosen by a link, because a form would change the bytes of a name that is not UTF-8.
type client struct {
	Link, Shown string
	Chosen      bool
}

// mostOffered is the most clients to choose from.
const mostOffered = 200

// A limiterView is the page of a limiter.
type limiterView struct {
	*view
	Name      string
	Live      string // address of the stream
	Clients   []client
	NoClients string // why there are none to choose from
	More      string // how many more there are
	PerClient bool
}

// look returns the newest view of a limiter.
func (h *Handler) look(ctx context.Context, hash, id string) (*view, error) {
	ctx, cancel := context.WithTimeout(ctx, every+patience)
	defer cancel()
	viewer, err := h.watches.join(hash, id, false)
	if err != nil {
		return nil, err
	}
	defer h.watches.leave(viewer)
	select {
	case v := <-viewer.views:
		return v, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-h.ctx.Done():
		return nil, errClosed
	}
}

// lookAt returns the limiter and client of a request, and the newest view.
func (h *Handler) lookAt(r *http.Request) (hash, id string, v *view, err error) {
	if hash, id, err = h.wanted(r); err != nil {
		return hash, id, nil, err
	}
	v, err = h.look(r.Context(), hash, id)
	switch {
	case err != nil:
		return hash, id, nil, err
	case v.State == stateError:
		return hash, id, nil, &problem{http.StatusServiceUnavailable, v.Texts["summary"]}
	case !v.exists:
		return hash, id, nil, &problem{http.StatusNotFound, "There is no limiter of this name."}
	}
	return hash, id, v, nil
}

func (h *Handler) limiterPage(w http.ResponseWriter, r *http.Request) {
	hash, id, v, err := h.lookAt(r)
	if err != nil {
		h.refuse(w, err)
		return
	}
	page := limiterView{
		view: v, Name: shown(h.public(hash)), Live: h.link("live", hash, id), PerClient: v.perClient,
	}
	if v.perClient {
		ids, err := h.clientsOf(r.Context(), hash)
		if err == nil && id == "" && len(ids) > 0 {
			http.Redirect(w, r, h.link("limiter", hash, ids[0]), http.StatusSeeOther)
			return
		}
		page.offer(h, hash, ids, id)
		if err != nil {
			page.NoClients = h.problemOf(err).text
		}
	}
	h.render(w, http.StatusOK, "limiter", frame{Title: cut(page.Name), Refresh: 10, Script: true, Page: page})
}

// offer adds the clients to choose from.
func (p *limiterView) offer(h *Handler, hash string, ids []string, chosen string) {
	for _, id := range ids[:min(len(ids), mostOffered)] {
		p.Clients = append(p.Clients, client{h.link("limiter", hash, id), cut(shown(h.public(id))),
			id == chosen})
	}
	if len(ids) > mostOffered {
		p.More = fmt.Sprintf("%d of %s are listed.", mostOffered, number(int64(len(ids))))
	}
	if len(ids) == 0 {
		p.NoClients = "No client has keys at the moment."
	}
}

// live sends the views of a limiter as server-sent events, each as JSON.
func (h *Handler) live(w http.ResponseWriter, r *http.Request) {
	hash, id, err := h.wanted(r)
	if err != nil {
		h.refuse(w, err)
		return
	}
	viewer, err := h.watches.join(hash, id, true)
	if err != nil {
		h.refuse(w, err)
		return
	}
	defer h.watches.leave(viewer)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would delay events
	stream := http.NewResponseController(w)
	if _, err := fmt.Fprint(w, "retry: 3000\n\n"); err != nil || stream.Flush() != nil ||
		r.Method != http.MethodGet {
		return
	}
	for {
		select {
		case v := <-viewer.views:
			_ = stream.SetWriteDeadline(time.Now().Add(longestWrite)) // some servers in between have none
			if _, err := fmt.Fprintf(w, "data: %s\n\n", v.data); err != nil || stream.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-h.ctx.Done():
			return
		}
	}
}
