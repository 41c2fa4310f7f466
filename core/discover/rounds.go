package discover

import "sync"

// rounds lets many inquiries that each wait for answers share the calls of the box: they run until all of them wait, then all
// their questions are asked together, on the goroutine that started them.
type rounds struct {
	lock    sync.Mutex
	idle    *sync.Cond
	active  int
	waiting []*request
	failed  error
}

type request struct {
	list    []question
	answers []uint64
	done    chan bool // false: the asking failed
}

// roundFailed is what an inquiry panics with after the asking failed; rounds.run has the error.
type roundFailed struct{}

func newRounds() *rounds {
	r := &rounds{}
	r.idle = sync.NewCond(&r.lock)
	return r
}

// spawn starts an inquiry.
func (r *rounds) spawn(f func()) {
	r.lock.Lock()
	r.active++
	r.lock.Unlock()
	go func() {
		defer func() {
			fault := recover()
			r.lock.Lock()
			defer r.lock.Unlock()
			if fault != nil {
				r.fail(fault)
			}
			r.leave()
		}()
		f()
	}()
}

// parallel runs parts of an inquiry side by side and waits for all of them.
func (r *rounds) parallel(parts ...func()) {
	if len(parts) == 0 {
		return
	}
	left := len(parts)
	done := make(chan bool)
	ok := true
	r.lock.Lock()
	r.active += len(parts) - 1 // the last part to end leaves its turn to the one that waits
	r.lock.Unlock()
	for _, f := range parts {
		go func() {
			defer func() {
				fault := recover()
				r.lock.Lock()
				if fault != nil {
					ok = false
					r.fail(fault)
				}
				left--
				last := left == 0
				if !last {
					r.leave()
				}
				r.lock.Unlock()
				if last {
					close(done)
				}
			}()
			f()
		}()
	}
	<-done
	if !ok {
		panic(roundFailed{})
	}
}

// fail keeps the first fault, leave ends a turn; the lock is held.
func (r *rounds) fail(fault any) {
	if _, expected := fault.(roundFailed); !expected && r.failed == nil {
		r.failed = faultError{fault}
	}
}

func (r *rounds) leave() {
	if r.active--; r.active == 0 {
		r.idle.Signal()
	}
}

// ask waits for the answers.
func (r *rounds) ask(list []question) []uint64 {
	if len(list) == 0 {
		return nil
	}
	q := &request{list: list, done: make(chan bool)}
	r.lock.Lock()
	r.waiting = append(r.waiting, q)
	r.leave()
	r.lock.Unlock()
	if !<-q.done {
		panic(roundFailed{})
	}
	return q.answers
}

// run answers until no inquiry is left.
func (r *rounds) run(ask func([]question) ([]uint64, error)) error {
	for {
		r.lock.Lock()
		for r.active > 0 {
			r.idle.Wait()
		}
		waiting := r.waiting
		r.waiting = nil
		r.active += len(waiting)
		failed := r.failed
		r.lock.Unlock()
		if len(waiting) == 0 {
			return failed
		}
		var all []question
		for _, q := range waiting {
			all = append(all, q.list...)
		}
		var answers []uint64
		if failed == nil {
			if answers, failed = ask(all); failed != nil {
				r.lock.Lock()
				r.failed = failed
				r.lock.Unlock()
			}
		}
		for _, q := range waiting {
			if failed == nil {
				q.answers, answers = answers[:len(q.list)], answers[len(q.list):]
			}
			q.done <- failed == nil
		}
	}
}
