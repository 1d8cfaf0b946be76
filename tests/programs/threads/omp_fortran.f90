! OpenMP in Fortran: loops, reductions, sections, critical, tasks, workshare,
! thread-private variables, nested regions.
program omp_fortran
  use omp_lib
  implicit none
  integer, parameter :: n = 1000
  integer, save :: own = 0
  !$omp threadprivate(own)
  integer :: i, total, wrong, count, levels
  integer :: squares(n)
  real(8) :: values(n), sum

  !$omp parallel do num_threads(4) schedule(dynamic, 5)
  do i = 1, n
    squares(i) = i * i
  end do
  !$omp end parallel do
  call check(all(squares == [(i * i, i = 1, n)]), 'parallel do')

  total = 0
  sum = 0
  !$omp parallel do num_threads(4) reduction(+ : total, sum)
  do i = 1, n
    total = total + i
    sum = sum + 0.5d0 * i
  end do
  !$omp end parallel do
  call check(total == 500500 .and. sum == 250250d0, 'reductions')

  !$omp parallel workshare num_threads(4)
  values = 2d0 * squares
  !$omp end parallel workshare
  call check(all(values == 2d0 * squares), 'workshare')

  count = 0
  !$omp parallel num_threads(4) private(i)
  do i = 1, 100
    !$omp critical
    count = count + 1
    !$omp end critical
  end do
  !$omp end parallel
  call check(count == 400, 'critical')

  !$omp parallel num_threads(4)
  own = 7 * omp_get_thread_num()
  !$omp end parallel
  wrong = 0
  !$omp parallel num_threads(4) reduction(+ : wrong)
  if (own /= 7 * omp_get_thread_num()) wrong = wrong + 1
  !$omp end parallel
  call check(wrong == 0, 'threadprivate')

  count = 0
  !$omp parallel num_threads(4) private(i)
  !$omp single
  do i = 1, 50
    !$omp task firstprivate(i)
    !$omp atomic
    count = count + i
    !$omp end task
  end do
  !$omp end single
  !$omp end parallel
  call check(count == 1275, 'tasks')

  count = 0
  levels = 0
  call omp_set_max_active_levels(2)
  !$omp parallel num_threads(2)
  !$omp parallel num_threads(2)
  !$omp atomic
  count = count + 1
  !$omp critical
  levels = omp_get_level()
  !$omp end critical
  !$omp end parallel
  !$omp end parallel
  call check(count == 4 .and. levels == 2, 'nested')

contains
  subroutine check(ok, text)
    logical, intent(in) :: ok
    character(*), intent(in) :: text
    if (ok) then
      print '(2a)', 'ok   ', text
    else
      print '(2a)', 'FAIL ', text
      error stop 1
    end if
  end subroutine
end program
