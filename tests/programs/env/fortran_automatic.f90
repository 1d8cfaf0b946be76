! Automatic arrays of many MB (the argument) on the stack, as `ulimit -s unlimited` is meant
! for: filled, summed, passed on, and given back, twice.
program fortran_automatic
  implicit none
  integer, parameter :: dp = kind(1d0)
  integer :: round, n
  character(16) :: argument

  n = 40
  call get_command_argument(1, argument)
  if (len_trim(argument) > 0) read(argument, *) n
  do round = 1, 2
    call work(n * 131072, round)
  end do

contains

  subroutine work(items, round)
    integer, intent(in) :: items, round
    real(dp) :: array(items)
    integer :: i
    do i = 1, items
      array(i) = mod(i, 1000) * round
    end do
    print '(a, i0, a, f20.1, a, f10.1)', 'round ', round, ': sum ', sum(array), ', last ', array(items)
    call smooth(array, items)
    print '(a, f20.1)', '  smoothed: ', sum(array)
  end subroutine

  subroutine smooth(array, items)
    integer, intent(in) :: items
    real(dp), intent(inout) :: array(items)
    real(dp) :: old(items / 16)
    integer :: i, last
    last = size(old)
    old = array(1:last)
    do i = 2, last - 1
      array(i) = (old(i-1) + 2 * old(i) + old(i+1)) / 4
    end do
  end subroutine
end program
