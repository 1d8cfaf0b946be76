! cpu_time, system_clock and date_and_time: forward only, in step with each
! other, plausible fields.
program fortran_clock
  use iso_fortran_env, only: int64
  implicit none
  integer(int64) :: count, last, rate, most, start
  integer :: values(8), i, back, failures = 0
  real(kind(1d0)) :: cpu_start, cpu, x
  character(8) :: date
  character(10) :: time
  character(5) :: zone

  call system_clock(count, rate, most)
  call check(rate >= 1000 .and. most > 0, 'system_clock has a rate')
  back = 0
  last = count
  do i = 1, 100000
    call system_clock(count)
    if (count < last) back = back + 1
    last = count
  end do
  call check(back == 0, '100000 readings never run backwards')

  call cpu_time(cpu_start)
  call system_clock(start)
  x = 0
  do
    do i = 1, 10000
      x = x + sqrt(real(i, kind(1d0)))
    end do
    call cpu_time(cpu)
    if (cpu - cpu_start > 0.2) exit
  end do
  call system_clock(count)
  call check(x > 0, 'cpu_time grows while computing')
  call check(real(count - start) / real(rate) > 0.15, 'at least as much time passed')

  call date_and_time(date, time, zone, values)
  call check(values(1) > 2023 .and. values(2) >= 1 .and. values(2) <= 12, 'year and month')
  call check(values(3) >= 1 .and. values(3) <= 31 .and. values(5) <= 23 .and. values(6) <= 59, 'day, hour, minute')
  call check(values(7) <= 60 .and. values(8) >= 0 .and. values(8) <= 999, 'seconds and milliseconds')
  read(date, '(i4)') i
  call check(i == values(1), 'the text says the same')
  call check(time(7:7) == '.' .and. (zone(1:1) == '+' .or. zone(1:1) == '-'), 'in its usual form')
  if (failures > 0) stop 1

contains

  subroutine check(ok, text)
    logical, intent(in) :: ok
    character(*), intent(in) :: text
    print '(2a)', merge('ok   ', 'FAIL ', ok), text
    if (.not. ok) failures = failures + 1
  end subroutine
end program
