package admission

import "net/http"

// Header returns the values of a header field, whose name is canonical, also of Host, which net/http keeps
// outside of Header.
func Header(r *http.Request, name string) []string {
	if name == "Host" && r.Host != "" {
		return []string{r.Host}
	}
	return r.Header[name]
}
