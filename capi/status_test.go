package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/gemm"
)

func TestStatusOf(t *testing.T) {
	_, missing := os.Open("no/such/file")
	for _, c := range []struct {
		err  error
		want status
	}{
		{nil, statusOK},
		{fail(statusProfile, "x"), statusProfile},
		{fmt.Errorf("outer: %w", fail(statusIO, "x")), statusIO},
		{&gemm.Error{Kind: gemm.KindArgument}, statusArgument},
		{&gemm.Error{Kind: gemm.KindShape}, statusShape},
		{&gemm.Error{Kind: gemm.KindFormat}, statusFormat},
		{&gemm.Error{Kind: gemm.KindOverlap}, statusOverlap},
		{&gemm.Error{Kind: gemm.KindUnsupported}, statusUnsupported},
		{fmt.Errorf("outer: %w", &gemm.Error{Kind: gemm.KindCancelled}), statusCancelled},
		{errCancelled, statusCancelled},
		{fmt.Errorf("outer: %w", errCancelled), statusCancelled},
		{missing, statusIO},
		{errors.New("of no kind"), statusInternal},
		{&gemm.Error{Kind: 99}, statusInternal},
	} {
		if got, message := statusOf(c.err); got != c.want || (message == "") != (c.err == nil) && c.err.Error() != "" {
			t.Errorf("%v: status %d with %q, want %d", c.err, got, message, c.want)
		}
	}
}

// faulty is a named place for TestProtect to find.
func faulty() error {
	var nothing []int
	return fmt.Errorf("%d", nothing[len(os.Args)+3])
}

func TestProtect(t *testing.T) {
	err := protect(faulty)
	if s, message := statusOf(err); s != statusInternal || !strings.Contains(message, "index out of range") || !strings.Contains(message, "faulty") {
		t.Errorf("a fault became status %d with %q", s, message)
	}
	if err := protect(func() error { panic("a word") }); err == nil || !strings.Contains(err.Error(), "a word") {
		t.Errorf("a panic became %v", err)
	}
	wanted := errors.New("wanted")
	if err := protect(func() error { return wanted }); err != wanted {
		t.Errorf("an error became %v", err)
	}
}
