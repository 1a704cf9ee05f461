package peers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// auditPolicy records each request once, when it is answered; a watch when it ends.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
`

// AuditEvent is a request in the API server's audit log.
type AuditEvent struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
}

// AuditLog is the path of the audit log, which exists if Config.Audit is set.
func (cp *ControlPlane) AuditLog() string { return cp.path("logs", "audit.log") }

// ReadAudit is [ReadAuditLog] of the control plane's audit log.
func (cp *ControlPlane) ReadAudit(from int64, visit func(AuditEvent)) (int64, error) {
	return ReadAuditLog(cp.AuditLog(), from, visit)
}

// SkipAudit returns the offset behind the requests so far.
func (cp *ControlPlane) SkipAudit(from int64) (int64, error) {
	return cp.ReadAudit(from, func(AuditEvent) {})
}

// ReadAuditLog visits the requests in a log from an offset on, 0 at first, and returns
// the offset to continue from. An incomplete last line is left for the next call. A
// missing log is empty.
func ReadAuditLog(path string, from int64, visit func(AuditEvent)) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return from, nil
	}
	if err != nil {
		return from, fmt.Errorf("read audit log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return from, fmt.Errorf("read audit log: %w", err)
	}
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return from, nil
		}
		if err != nil {
			return from, fmt.Errorf("read audit log: %w", err)
		}
		var e AuditEvent
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return from, fmt.Errorf("read audit log: %w", err)
		}
		visit(e)
		from += int64(len(line))
	}
}
