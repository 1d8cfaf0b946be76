! OpenMP in Fortran: loops, reductions, sections, critical, tasks, workshare,
! thread-private variables, nested regions, places.
program omp_fortran
  use, intrinsic :: iso_c_binding, only: c_int
  use omp_lib
  implicit none
  integer, parameter :: n = 1000
  integer, save :: own = 0
  !$omp threadprivate(own)
  integer :: i, total, wrong, count, levels
  integer :: squares(n)
  real(8) :: values(n), sum
  logical :: bound
  interface
    integer(c_int) function sched_getcpu() bind(c)
      import :: c_int
    end function
  end interface

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

  ! Before nested regions: after those libgomp takes a thread for bound to a place where it is not.
  bound = omp_get_proc_bind() /= omp_proc_bind_false
  call check(bound .eqv. omp_get_num_places() > 0, 'places, where threads are bound')
  count = 0
  do i = 0, omp_get_num_places() - 1
    count = count + omp_get_place_num_procs(i)
  end do
  call check(.not. bound .or. count == omp_get_num_procs(), 'of all processors')
  wrong = 0
  !$omp parallel num_threads(4) proc_bind(close) reduction(+ : wrong)
  if (bound .neqv. in_place(omp_get_place_num())) wrong = wrong + 1
  !$omp end parallel
  call check(wrong == 0, 'each bound thread is in its place')
  wrong = 0
  !$omp parallel num_threads(max(1, omp_get_num_places())) proc_bind(spread) reduction(+ : wrong)
  if (omp_get_num_threads() == omp_get_num_places() .and. omp_get_place_num() /= omp_get_thread_num()) wrong = wrong + 1
  !$omp end parallel
  call check(wrong == 0, 'one in each, when spread')

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
  ! Whether the processor that this thread is on is one of that place; no place has number -1.
  logical function in_place(place)
    integer, intent(in) :: place
    integer, allocatable :: processors(:)
    in_place = place >= 0
    if (.not. in_place) return
    allocate (processors(omp_get_place_num_procs(place)))
    call omp_get_place_proc_ids(place, processors)
    in_place = any(processors == sched_getcpu())
  end function

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
