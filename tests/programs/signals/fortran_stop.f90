! Ends as its argument says: "stop" with a code, "error" stop with a text, a
! run-time "bounds" error, or the plain end; files are flushed in all cases.
program fortran_stop
  implicit none
  character(16) :: how
  integer :: values(3), i, unit

  call get_command_argument(1, how)
  open(newunit=unit, file='written')
  write(unit, '(a)') 'flushed by the end of the program'
  print '(2a)', 'ending by ', trim(how)
  values = [1, 2, 3]
  i = len_trim(how)
  select case (how)
  case ('stop')
    stop 3
  case ('error')
    error stop 'this is the error text'
  case ('bounds')
    print '(i0)', values(min(i, 3)), values(i)
  case default
    print '(a)', 'plain end'
  end select
end program
