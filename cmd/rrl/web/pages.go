package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"time"
)

//go:embed static templates
var files embed.FS

// Templates are the pages, each with the frame around it.
var templates = func() map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range []string{"list", "limiter", "change", "error"} {
		all[name] = template.Must(template.ParseFS(files, "templates/frame.html", "templates/"+name+".html"))
	}
	return all
}()

// A frame is what all pages have.
type frame struct {
	Title   string
	Prefix  string
	Refresh int // seconds after which a browser without scripts loads the page again; 0 for never
	Script  bool
	Page    any
}

// longestWrite is how long a viewer may take to take a page, or what is new about a limiter. Whoever
// takes nothing for so long has gone, or must come again.
const longestWrite = 10 * time.Second

// render writes a page. No more than Config.Viewers pages are on their way at a time: each is in memory
// until its viewer has taken it.
func (h *Handler) render(w http.ResponseWriter, status int, name string, f frame) {
	select {
	case h.writing <- struct{}{}:
		defer func() { <-h.writing }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, "Too many are looking at the moment.", http.StatusServiceUnavailable)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(longestWrite)) // some servers have none
	f.Prefix = h.config.Prefix
	var page bytes.Buffer
	if err := templates[name].ExecuteTemplate(&page, "frame.html", f); err != nil {
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // a viewer may have gone
}

// A problem is an error with what a viewer is told.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

// refuse writes a page that says why there is no other.
func (h *Handler) refuse(w http.ResponseWriter, err error) {
	p, retry := h.problemOf(err), 0
	if p.status == http.StatusServiceUnavailable {
		retry = 10
		w.Header().Set("Retry-After", strconv.Itoa(retry))
	}
	h.render(w, p.status, "error", frame{Title: http.StatusText(p.status), Refresh: retry, Page: p.text})
}

func (h *Handler) problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	text := h.unread(err)
	switch {
	case errors.Is(err, errBusy):
		text = "Too many are looking at the moment. Try again in some seconds."
	case errors.Is(err, errClosed):
		text = "The server is stopping."
	case errors.Is(err, context.DeadlineExceeded):
		text = "Redis takes long. Try again in some seconds."
	}
	return &problem{http.StatusServiceUnavailable, text}
}

// link returns the address of a page about a limiter, with the bytes of its name as they are.
func (h *Handler) link(page, hash, id string) string {
	values := url.Values{"name": {h.public(hash)}}
	if id != "" {
		values.Set("id", h.public(id))
	}
	return h.config.Prefix + page + "?" + values.Encode()
}

// wanted returns which limiter, and which client of it, a request is about.
func (h *Handler) wanted(r *http.Request) (hash, id string, err error) {
	query := r.URL.Query()
	hash, id = query.Get("name"), query.Get("id")
	if hash == "" || len(hash) > longestName || len(id) > longestName {
		return "", "", &problem{http.StatusBadRequest, "The name of the limiter is missing, or too long."}
	}
	unknown := &problem{http.StatusNotFound, "There is no limiter of this name."}
	if h.config.Mask {
		if hash, err = h.unmask(r.Context(), hash, ""); err == nil && id != "" {
			id, err = h.unmask(r.Context(), id, hash)
		}
		if err != nil {
			return "", "", err
		}
	}
	if !matches(h.config.Match, hash) || hash == "" {
		return "", "", unknown
	}
	return hash, id, nil
}

// unmask returns what a mask stands for: the name of a limiter, or the id of a client of the limiter in hash.
// What was not given out yet is looked for.
func (h *Handler) unmask(ctx context.Context, mask, hash string) (string, error) {
	if text, known := h.masks.unmask(mask); known {
		return text, nil
	}
	var candidates []string
	if hash != "" {
		ids, err := h.clientsOf(ctx, hash)
		if err != nil {
			return "", err
		}
		candidates = ids
	} else {
		found, err := h.list(ctx, "")
		if err != nil {
			return "", err
		}
		for _, l := range found.limiters {
			candidates = append(candidates, l.Name)
		}
	}
	i := slices.IndexFunc(candidates, func(text string) bool { return h.masks.mask(text) == mask })
	if i < 0 {
		return "", &problem{http.StatusNotFound,
			"There is no limiter of this name. Masks end with the server."}
	}
	return candidates[i], nil
}

// static serves script and style. A browser asks each time whether its copy is still the same.
func static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, err := files.ReadFile(path.Join("static", path.Base(name)))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(content)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}
