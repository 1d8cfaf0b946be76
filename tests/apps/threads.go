package main

import (
	"fmt"
	"sync"
)

func main() {
	var wg sync.WaitGroup
	sums := make([]int, 16)
	ch := make(chan int, 4)
	for i := range sums {
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			for k := 0; k < 100000; k++ {
				sums[i] += k % (i + 1)
			}
			ch <- sums[i]
		}(i)
	}
	go func() { wg.Wait(); close(ch) }()
	total := 0
	for v := range ch {
		total += v
	}
	fmt.Println(total, sums)
}
