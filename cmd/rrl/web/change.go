package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// A change carries out a form. seen is the newest view of the limiter.
type change func(ctx context.Context, l *rratelimiter.RateLimiter, form url.Values, seen *view) error

// changes returns the changes by the last part of their paths.
func changes() map[string]change {
	return map[string]change{"rate": setRate, "repair": repair, "delete": remove}
}

// done describes a change on the next page, whose address names the change.
func done(what string) string {
	switch what {
	case "rate":
		return "The rate is set."
	case "repair":
		return "The limiter is repaired."
	}
	return ""
}

// setRate sets the rate. It keeps the type, so that no permits are forgotten.
func setRate(ctx context.Context, l *rratelimiter.RateLimiter, form url.Values, seen *view) error {
	rate, err := strconv.ParseInt(strings.TrimSpace(form.Get("rate")), 10, 64)
	if err != nil {
		return &problem{http.StatusBadRequest, "The rate must be a whole number of at least 1."}
	}
	interval, err := duration(form.Get("interval"))
	if err != nil {
		return &problem{http.StatusBadRequest, "The interval must be a duration, such as 10s or 1m30s."}
	}
	var opts []rratelimiter.RateOption
	if text := form.Get("keep_alive"); strings.TrimSpace(text) != "" {
		keepAlive, err := duration(text)
		if err != nil {
			return &problem{http.StatusBadRequest, "Keep alive must be a duration, such as 1h, or empty."}
		}
		opts = append(opts, rratelimiter.WithKeepAlive(keepAlive))
	}
	if form.Get("keep_state") != "" {
		opts = append(opts, rratelimiter.WithKeepState())
	}
	typ := rratelimiter.Overall
	if seen.perClient {
		typ = rratelimiter.PerClient
	}
	return l.SetRate(ctx, typ, rate, interval, opts...)
}

func duration(text string) (time.Duration, error) { return time.ParseDuration(strings.TrimSpace(text)) }

// repair makes value and records agree.
func repair(ctx context.Context, l *rratelimiter.RateLimiter, _ url.Values, _ *view) error {
	_, err := l.Repair(ctx)
	return err
}

// remove deletes the limiter if its name was typed as the page shows it.
func remove(ctx context.Context, l *rratelimiter.RateLimiter, form url.Values, _ *view) error {
	if typed := form.Get("confirm"); typed != l.Name() && typed != shown(l.Name()) {
		return &problem{http.StatusBadRequest, "The typed name is another one. Nothing was deleted."}
	}
	_, err := l.Delete(ctx)
	return err
}

// A changeView is the page with the forms.
type changeView struct {
	Name, Type                string
	Back                      string // address of the limiter's page
	SetRate, Repair, Delete   string // addresses of the forms
	ID                        string
	Rate, Interval, KeepAlive string
	KeepState                 bool
	Error                     string
}

// changing refuses changes unless Config allows them.
func (h *Handler) changing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !h.config.AllowChanges {
			h.refuse(w, &problem{http.StatusForbidden, "This server only shows limiters. It changes none."})
			return
		}
		next(w, r)
	}
}

func (h *Handler) changePage(w http.ResponseWriter, r *http.Request) {
	hash, id, v, err := h.lookAt(r)
	if err != nil {
		h.refuse(w, err)
		return
	}
	h.render(w, http.StatusOK, "change", frame{Title: "Change", Page: h.forms(hash, id, v)})
}

// forms returns the page with the forms of a limiter, filled in.
func (h *Handler) forms(hash, id string, v *view) changeView {
	page := changeView{
		Name: shown(hash), Type: v.kind, Back: h.link("limiter", hash, id), ID: shown(id), KeepState: true,
		SetRate: h.link("change/rate", hash, id), Delete: h.link("change/delete", hash, id),
		Rate: strconv.FormatInt(v.Rate, 10), Interval: words.Span(v.Interval),
	}
	if v.State == stateOK && (id != "" || !v.perClient) {
		page.Repair = h.link("change/repair", hash, id)
	}
	if v.keepAlive > 0 {
		page.KeepAlive = words.Span(v.keepAlive)
	}
	return page
}

// post carries out a change.
func (h *Handler) post(name string, do change) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		const longestForm = 64 << 10
		r.Body = http.MaxBytesReader(w, r.Body, longestForm)
		if err := r.ParseForm(); err != nil {
			h.refuse(w, &problem{http.StatusBadRequest, "The form cannot be read."})
			return
		}
		// The token comes first: without it a viewer learns nothing.
		if status := h.tokens.check(r, r.PostForm.Get("token")); status != http.StatusOK {
			h.refuseForm(w, r, &problem{status, refusals[status]})
			return
		}
		hash, id, v, err := h.lookAt(r)
		if err == nil && !v.settable {
			err = &problem{http.StatusConflict, "Another program uses the name. Nothing was changed."}
		}
		if err == nil {
			err = h.carryOut(r, hash, id, v, do)
		}
		if err != nil {
			h.refuseForm(w, r, err)
			return
		}
		to := h.config.Prefix + "?done=" + name
		if name != "delete" {
			to = h.link("limiter", hash, id) + "&done=" + name
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// carryOut makes a change with its own Client, which acts as the client on the page.
func (h *Handler) carryOut(r *http.Request, hash, id string, v *view, do change) error {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	var opts []rratelimiter.Option
	if v.perClient && id != "" {
		opts = append(opts, rratelimiter.WithID(id))
	}
	c := rratelimiter.New(h.rdb, opts...)
	defer c.Close()
	err := do(ctx, c.RateLimiter(hash), r.PostForm, v)
	if _, ok := errors.AsType[*problem](err); ok {
		return err
	}
	if errors.Is(err, rratelimiter.ErrInvalidArgument) {
		return &problem{http.StatusBadRequest, shown(err.Error())}
	}
	h.watches.forget(hash)
	status := http.StatusBadGateway
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rratelimiter.ErrNotInitialized), errors.Is(err, rratelimiter.ErrBadState):
		status = http.StatusConflict
	}
	return &problem{status, shown(err.Error())}
}

// refuseForm shows the forms and their contents again, without the token, and the error.
func (h *Handler) refuseForm(w http.ResponseWriter, r *http.Request, why error) {
	hash, id, v, err := h.lookAt(r)
	if err != nil {
		h.refuse(w, why)
		return
	}
	page, form := h.forms(hash, id, v), r.PostForm
	if form.Has("rate") {
		page.Rate, page.Interval, page.KeepAlive = form.Get("rate"), form.Get("interval"),
			form.Get("keep_alive")
		page.KeepState = form.Get("keep_state") != ""
	}
	p := h.problemOf(why)
	page.Error = p.text
	h.render(w, p.status, "change", frame{Title: "Change", Page: page})
}
